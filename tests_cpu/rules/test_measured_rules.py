"""ACC and SPD: baselines, impossible figures, speed-ups, floors of one GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from eagle3_checks.facts import Acceptance, BaselineSeen, Interval, SpeedUp, Stream, Throughput
from eagle3_checks.profile import Floors
from eagle3_checks.rules.base import Facts, run_rule
from eagle3_checks.rules.registry import by_code
from eagle3_checks.verdict import Finding, Judgement, Judgements, Outcome, Severity, Status

Judge = Callable[..., tuple[Finding, ...]]


def span(value: float, half: float = 0.01) -> Interval:
    return Interval(value=value, low=value - half, high=value + half, level=0.95, n=40)


def seen(state: str = "alike", **changes: Any) -> BaselineSeen:
    values: dict[str, Any] = {
        "path": "b/1.json",
        "recorded": "2026-01-01T00:00:00+00:00",
        "accept_length": 2.3,
        "margin": 0.03,
        "pairs": 40,
    }
    return BaselineSeen(state=state, **{**values, **changes})


def judge_baseline(
    baseline: BaselineSeen, change: float | None = 0.0, half: float = 0.01
) -> Finding:
    judged = None
    if change is not None:
        interval = span(change, half)
        outcome = Outcome.REACHED if interval.low >= -0.03 else Outcome.OPEN
        judged = Judgement(
            outcome=Outcome.MISSED if interval.high < -0.03 else outcome,
            value=change,
            bound=-0.03,
            interval=interval,
            prompts=40,
            planned=80,
            looks=7,
            verify_steps=4000,
            detectable=0.02,
        )
    acceptance = Acceptance(
        prompts=40,
        verify_steps=4000,
        correct_drafts=5200,
        proposed_drafts=12000,
        accept_length=span(2.3),
        accept_rate=None,
        per_position=None,
        failed_requests=0,
    )
    facts = Facts(
        acceptance=acceptance,
        baseline=baseline,
        judgements=Judgements(error=0.05, baseline=judged),
    )
    (finding,) = run_rule(by_code("ACC005"), facts)
    return finding


def test_no_worse_than_the_baseline() -> None:
    finding = judge_baseline(seen())
    assert finding.status is Status.PASS
    assert finding.message == (
        "accept length +0.0 % [-1.0 %, +1.0 %] against 2.30 of 2026-01-01T00:00:00+00:00, 40 of 80 "
        "prompts, 4 000 verify steps; a loss of 3 % is allowed"
    )


def test_a_loss_beyond_the_margin_fails_and_one_across_it_is_unclear() -> None:
    lost = judge_baseline(seen(), -0.1)
    assert lost.is_error
    assert "-10.0 % [-11.0 %, -9.0 %]" in lost.message
    close = judge_baseline(seen(), -0.03)
    assert close.status is Status.INCONCLUSIVE
    assert "this run could tell 2.0 %" in close.message
    assert judge_baseline(seen(), 0.2).status is Status.PASS


def test_an_unlike_baseline_is_compared_and_the_difference_told() -> None:
    unlike = seen("unlike", differences=("sglang: 0.5.22 then, 0.5.23 now",))
    assert judge_baseline(unlike).message.endswith(
        "; compared although sglang: 0.5.22 then, 0.5.23 now"
    )


def test_a_first_run_says_that_it_was_recorded() -> None:
    first = judge_baseline(seen("written"), None)
    assert first.status is Status.PASS
    assert first.message == "nothing to compare with: this run was recorded as b/1.json"
    near = seen("written", nearest="b/2.json", differences=("gpu: cpu then, 1 x H200 now",))
    assert judge_baseline(near, None).message.endswith(
        "; the nearest other one, b/2.json, differs in gpu: cpu then, 1 x H200 now"
    )


@pytest.mark.parametrize(
    ("baseline", "says"),
    [
        (seen("none", problem="b/1.json: is not JSON"), "no baseline: b/1.json: is not JSON"),
        (seen(pairs=1), "1 prompt of 40 are in the baseline b/1.json: too few to compare"),
    ],
)
def test_nothing_to_compare_with_is_no_pass(baseline: BaselineSeen, says: str) -> None:
    finding = judge_baseline(baseline, None)
    assert (finding.status, finding.message) == (Status.INCONCLUSIVE, says)


def test_without_a_baseline_the_rule_is_skipped(judge_acceptance: Judge) -> None:
    assert judge_acceptance("ACC005")[0].status is Status.SKIP


@pytest.mark.parametrize(
    ("length", "status"),
    [(3.97, Status.INCONCLUSIVE), (3.92, Status.INCONCLUSIVE), (3.8, Status.PASS)],
)
def test_accept_lengths_at_the_ceiling(
    judge_acceptance: Judge, length: float, status: Status
) -> None:
    (finding,) = judge_acceptance("ACC006", length=(length, length - 0.01, length + 0.01))
    assert finding.status is status


def test_too_few_prompts_to_judge_by(judge_acceptance: Judge) -> None:
    (finding,) = judge_acceptance("ACC001", floors=Floors(accept_length=2.0), judged=False)
    assert finding.status is Status.INCONCLUSIVE
    assert "too few prompts" in finding.message


FLOORS = {"8": 100.0, "H200:8": 300.0, "H100:8": 200.0}


@pytest.mark.parametrize(
    ("hardware", "speed", "passes"),
    [
        ("NVIDIA H200", 250.0, False),
        ("NVIDIA H200", 350.0, True),
        ("NVIDIA H100 80GB HBM3", 250.0, True),
        ("NVIDIA A100", 150.0, True),
        ("unknown", 90.0, False),
    ],
)
def test_a_floor_of_this_gpu_goes_before_one_of_any(
    judge_speed: Judge, hardware: str, speed: float, *, passes: bool
) -> None:
    (finding,) = judge_speed("SPD001", {8: speed}, FLOORS, hardware=hardware)
    assert (finding.status is Status.PASS) is passes
    assert finding.is_error is not passes


def test_floors_of_other_gpus_alone_are_inconclusive(judge_speed: Judge) -> None:
    (finding,) = judge_speed("SPD001", {8: 900.0}, {"H200:8": 300.0}, hardware="cpu")
    assert finding.status is Status.INCONCLUSIVE
    assert finding.message == "no floor holds on cpu: there are H200:8"


def test_a_concurrency_whose_floors_are_elsewhere_does_not_pass(judge_speed: Judge) -> None:
    floors = {"1": 50.0, "H200:8": 300.0}
    (finding,) = judge_speed("SPD001", {1: 90.0, 8: 1.0}, floors, hardware="NVIDIA A100")
    assert finding.status is Status.INCONCLUSIVE
    assert finding.message == "no floor holds on NVIDIA A100: there are H200:8"


@pytest.mark.parametrize(
    ("half", "speed", "status", "held"),
    [
        (10.0, 110.0, Status.PASS, ""),
        (10.0, 105.0, Status.INCONCLUSIVE, "105.0 [95.0, 115.0] tok/s at concurrency 8"),
        (10.0, 95.0, Status.INCONCLUSIVE, "; the interval holds the floor, 100.0"),
        (10.0, 89.0, Status.FAIL, "; the floor is 100.0"),
        (math.inf, 900.0, Status.INCONCLUSIVE, "[-inf, inf]"),
    ],
)
def test_speed_is_judged_by_its_interval(
    judge_speed: Judge, half: float, speed: float, status: Status, held: str
) -> None:
    (finding,) = judge_speed("SPD001", {8: speed}, {"8": 100.0}, interval=span(speed, half))
    assert finding.status is status
    assert held in finding.message


def test_a_client_without_time_left(judge_speed: Judge) -> None:
    (finding,) = judge_speed("SPD003", {64: 900.0}, client_share=0.93)
    assert finding.status is Status.INCONCLUSIVE
    assert "0.93 CPU seconds a second at concurrency 64" in finding.message
    assert judge_speed("SPD003", {64: 900.0}, client_share=0.2)[0].status is Status.PASS
    assert judge_speed("SPD003", {})[0].status is Status.SKIP


def judge_compared(  # noqa: PLR0913 - one for each figure that a rule looks at
    code: str,
    ratios: dict[int, tuple[float, float]],
    floors: dict[str, float] | None = None,
    *,
    failed: int = 0,
    lengths: tuple[float | None, float] = (2.2, 2.2),
    drift: float | None = None,
    cached: tuple[float, float] = (0.0, 0.0),
) -> tuple[Finding, ...]:
    streams = tuple(
        Stream(
            concurrency=c,
            requests=16,
            failed=failed,
            output_tokens=100,
            seconds=1.0,
            tokens_per_second=100.0,
            accept_length=lengths[0],
            prompt_tokens=1000,
            cached_tokens=round(1000 * cached[0]),
        )
        for c in ratios
    )
    base = tuple(replace(s, cached_tokens=round(1000 * cached[1])) for s in streams)
    ups = tuple(
        SpeedUp(concurrency=c, ratio=span(*r), base_tokens_per_second=50.0, drift=drift)
        for c, r in ratios.items()
    )
    acceptance = Acceptance(
        prompts=40,
        verify_steps=4000,
        correct_drafts=5200,
        proposed_drafts=12000,
        accept_length=span(lengths[1]),
        accept_rate=None,
        per_position=None,
        failed_requests=0,
    )
    compared = Throughput(streams=streams, base=base, speed_ups=ups, break_even=20.0)
    facts = Facts(compared=compared, acceptance=acceptance, floors=Floors(speed_up=floors or {}))
    return run_rule(by_code(code), facts)


def test_speed_up_floors() -> None:
    (passed,) = judge_compared("SPD004", {1: (1.8, 0.1), 8: (1.3, 0.1)}, {"1": 1.5, "8": 1.1})
    assert passed.status is Status.PASS
    assert passed.message.endswith("; break-even at concurrency 20")
    (slow,) = judge_compared("SPD004", {1: (1.2, 0.1)}, {"1": 1.5})
    assert slow.is_error
    assert (
        "speed-up 1.20 times [1.10, 1.30] 95 % at concurrency 1; the floor is 1.50" in slow.message
    )
    (close,) = judge_compared("SPD004", {1: (1.55, 0.1)}, {"1": 1.5})
    assert close.status is Status.INCONCLUSIVE
    (unclean,) = judge_compared("SPD004", {1: (1.8, 0.1)}, {"1": 1.5}, failed=1)
    assert unclean.status is Status.INCONCLUSIVE
    assert judge_compared("SPD004", {1: (1.8, 0.1)})[0].status is Status.SKIP


def test_a_speed_up_above_the_accept_length() -> None:
    (finding,) = judge_compared("SPD005", {1: (4.12, 0.2)})
    assert finding.status is Status.INCONCLUSIVE
    assert "is above the accept length, 2.20" in finding.message
    # The accept length of the same requests goes before that of the other prompts.
    assert judge_compared("SPD005", {1: (2.5, 0.1)}, lengths=(3.0, 2.2))[0].status is Status.PASS
    (pooled,) = judge_compared("SPD005", {1: (2.5, 0.1)}, lengths=(None, 2.2))
    assert pooled.status is Status.INCONCLUSIVE
    # Across it, noise may be the reason.
    assert judge_compared("SPD005", {1: (2.25, 0.1)})[0].status is Status.PASS
    assert judge_compared("SPD005", {})[0].status is Status.SKIP


def test_a_speed_up_that_could_not_be_measured_is_no_pass() -> None:
    lost = Stream(
        concurrency=8,
        requests=4,
        failed=4,
        output_tokens=0,
        seconds=1.0,
        tokens_per_second=0.0,
    )
    answered = replace(lost, failed=0, output_tokens=100, tokens_per_second=100.0)
    compared = Throughput(streams=(answered,), base=(lost,))
    acceptance = Acceptance(
        prompts=1,
        verify_steps=10,
        correct_drafts=10,
        proposed_drafts=30,
        accept_length=None,
        accept_rate=None,
        per_position=None,
        failed_requests=0,
    )
    facts = Facts(compared=compared, acceptance=acceptance)
    (finding,) = run_rule(by_code("SPD005"), facts)
    assert finding.status is Status.INCONCLUSIVE
    assert finding.message == (
        "no speed-up at concurrency 8: 0 of 4 requests failed with speculation, 4 of 4 without"
    )


def test_repetitions_are_told_with_the_speed_up() -> None:
    (told,) = judge_compared("SPD004", {1: (1.8, 0.1)}, {"1": 1.5}, drift=0.018)
    assert told.message.endswith(
        "; measured again, speeds differ by 1.8 %, which the intervals hold"
    )


@pytest.mark.parametrize(
    ("cached", "expected"),
    [((1.0, 0.0), Status.FAIL), ((0.62, 0.6), Status.PASS), ((0.0, 0.0), Status.PASS)],
)
def test_prompts_that_one_server_knew(cached: tuple[float, float], expected: Status) -> None:
    found = judge_compared("SPD006", {1: (1.8, 0.1)}, cached=cached)
    assert found[0].status is expected
    assert not found[0].is_error
    if expected is Status.FAIL:
        assert found[0].severity is Severity.WARNING
        assert found[0].message == (
            "at concurrency 1 100 % of prompt tokens were cached with speculation, 0 % without"
        )


def test_caches_without_a_comparison() -> None:
    assert judge_compared("SPD006", {})[0].status is Status.SKIP
