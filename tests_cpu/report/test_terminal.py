from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from eagle3_checks.facts import Acceptance, Interval, Stream, Throughput
from eagle3_checks.report.result import build_result
from eagle3_checks.report.terminal import render
from eagle3_checks.verdict import Finding, Severity, Status, Verdict


def finding(code: str, status: Status, **changes: Any) -> Finding:
    standard = {
        "code": code,
        "family": code[:3],
        "severity": Severity.ERROR,
        "status": status,
        "title": "Accept length reaches its floor",
        "message": "accept length 1.03 [1.01, 1.05] is below the floor 2.40 (profile.toml:12)",
        "fix": "look at the findings above first: a drafter that is fed wrong accepts nothing",
    }
    if status is Status.PASS or status is Status.SKIP:
        standard["fix"] = ""
    return Finding(**(standard | changes))


FINDINGS = (
    finding(
        "KEY001", Status.PASS, title="Every tensor is loaded", message="Every tensor is loaded"
    ),
    finding(
        "VOC001", Status.SKIP, title="d2t fits", message="no d2t: the vocabulary is not reduced"
    ),
    finding(
        "CFG009",
        Status.FAIL,
        severity=Severity.WARNING,
        title="RoPE bases agree",
        message="rope_theta is 10000 in the drafter and 1000000 in the target",
        fix="",
    ),
    finding(
        "WIR003",
        Status.FAIL,
        title="The fusion layer runs in prefill and draft-extend",
        message="fc never ran in prefill: the drafter received 7168 instead of 21504 = 3 aux "
        "states x 7168; the shape test skipped it",
        fix="serve with EAGLE3",
    ),
    finding("ACC001", Status.FAIL),
    finding(
        "SPD001",
        Status.INCONCLUSIVE,
        title="Output speed reaches its floor",
        message="2 of 8 requests failed",
        fix="",
    ),
)


def interval(value: float) -> Interval:
    return Interval(value=value, low=value - 0.25, high=value + 0.25, level=0.95, n=80)


def a_result(findings: tuple[Finding, ...], verdict: Verdict) -> dict[str, Any]:
    return build_result(
        verdict=verdict,
        findings=findings,
        subject={"target": "org/target", "drafter": "org/drafter", "sglang": "0.5.23"},
        measurements={
            "acceptance": Acceptance(
                prompts=80,
                verify_steps=19876,
                correct_drafts=600,
                proposed_drafts=59628,
                accept_length=interval(1.5),
                accept_rate=interval(0.5),
                per_position=(0.5, 0.25, 0.0),
                failed_requests=0,
            ),
            "throughput": Throughput(
                streams=(
                    Stream(
                        concurrency=1,
                        requests=16,
                        failed=0,
                        output_tokens=4096,
                        seconds=32.0,
                        tokens_per_second=128.0,
                    ),
                    Stream(
                        concurrency=8,
                        requests=16,
                        failed=0,
                        output_tokens=4096,
                        seconds=8.0,
                        tokens_per_second=512.0,
                    ),
                )
            ),
        },
        reproduce="pytest -m gpu --eagle3-profile kimi-k2.5",
    )


def rendered(result: dict[str, Any], width: int, *, verbose: bool = False) -> str:
    out = io.StringIO()
    render(result, Console(file=out, width=width), verbose=verbose)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("verbose", [False, True], ids=["short", "verbose"])
def test_a_failed_gate(snapshot: SnapshotAssertion, width: int, verbose: bool) -> None:  # noqa: FBT001
    text = rendered(a_result(FINDINGS, Verdict.FAIL), width, verbose=verbose)
    assert [
        line for line in text.splitlines() if len(line) > width and not line.startswith("reproduce")
    ] == []
    assert text == snapshot


def test_a_passed_gate_is_short(snapshot: SnapshotAssertion) -> None:
    assert rendered(a_result(FINDINGS[:2], Verdict.PASS), 80) == snapshot


def test_markup_in_names_is_shown_as_it_is() -> None:
    hostile = finding("KEY001", Status.FAIL, message="[bold]layers.0[/bold] [/] \x1b[31mred")
    text = rendered(a_result((hostile,), Verdict.FAIL), 80)
    assert "[bold]layers.0[/bold] [/]" in text
    assert "\x1b" not in text
