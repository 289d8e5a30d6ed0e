from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.facts import Interval, SpeedUp, Stream, Throughput
from eagle3_checks.measure.speedup import _widened, against_base, break_even

PROMPTS = 8


def stream(concurrency: int, seconds: float, *, failed: int = 0) -> Stream:
    """Return a stream whose prompts take from `seconds` to 14 % more."""
    latencies = tuple((f"p{n}", 100, seconds * (1 + n / 50)) for n in range(PROMPTS))
    return Stream(
        concurrency=concurrency,
        requests=PROMPTS,
        failed=failed,
        output_tokens=100 * PROMPTS,
        seconds=seconds * PROMPTS / concurrency,
        tokens_per_second=100 * concurrency / seconds,
        latencies=latencies,
    )


def run(*seconds: float) -> Throughput:
    """Return a measurement at 1, 8 and 64 streams, as far as seconds are given."""
    pairs = zip((1, 8, 64), seconds, strict=False)
    return Throughput(streams=tuple(stream(c, s) for c, s in pairs))


def test_the_speed_up_is_paired_by_prompt() -> None:
    got = against_base([run(1.0, 3.0, 9.0)], [run(2.0, 3.3, 7.0)])
    ratios = {up.concurrency: up.ratio for up in got.speed_ups}
    assert ratios[1].value == pytest.approx(2.0)
    assert ratios[64].value == pytest.approx(7 / 9)
    # Prompts differ by 14 %, in both runs alike: nothing of that is left in the ratio.
    assert ratios[1].high - ratios[1].low < 1e-9
    assert [up.drift for up in got.speed_ups] == [None] * 3
    assert got.base == run(2.0, 3.3, 7.0).streams
    assert got.break_even is not None
    assert 8 < got.break_even < 64


def test_what_moves_a_whole_measurement_widens_the_interval() -> None:
    calm = against_base([run(1.0, 3.0)] * 2, [run(2.0, 4.5)] * 2)
    (first, second) = calm.speed_ups
    assert first.drift == pytest.approx(0.0, abs=1e-12)
    assert first.ratio.high - first.ratio.low < 1e-9
    assert second.ratio.value == pytest.approx(1.5)

    # The second measurement with speculation was 10 % slower throughout, its prompts alike.
    moved = against_base([run(1.0, 3.0), run(1.1, 3.3)], [run(2.0, 4.5)] * 2)
    (first, second) = moved.speed_ups
    assert first.ratio.value == pytest.approx(2 / math.sqrt(1.1))
    # Both concurrencies moved by log 1.1, the base by nothing: 2 x log(1.1)^2 / 2 over 4 degrees.
    spread = math.log(1.1) / 2
    assert first.drift == second.drift == pytest.approx(spread)
    half = 2.776 * spread  # Student's t, 4 degrees of freedom; two measurements on both sides
    assert math.log(first.ratio.high / first.ratio.value) == pytest.approx(half, rel=1e-3)
    assert math.log(first.ratio.value / first.ratio.low) == pytest.approx(half, rel=1e-3)
    assert moved.again == run(1.1, 3.3).streams
    assert moved.base_again == run(2.0, 4.5).streams


def test_the_interval_holds_when_measurements_move_as_wholes() -> None:
    """Plain intervals over prompts would hold the truth in hardly any of these."""
    rng = random.Random(1)  # noqa: S311 - a seeded simulation
    held, runs = 0, 400

    def moved(*seconds: float) -> Throughput:
        return run(*(s * math.exp(rng.gauss(0, 0.03)) for s in seconds))

    for _ in range(runs):
        got = against_base([moved(1.0, 3.0), moved(1.0, 3.0)], [moved(1.6, 3.9), moved(1.6, 3.9)])
        held += got.speed_ups[0].ratio.low <= 1.6 <= got.speed_ups[0].ratio.high
    assert 0.92 <= held / runs <= 0.98


@given(
    value=st.floats(0.2, 5),
    under=st.floats(0.0, 0.9),
    over=st.floats(0.0, 0.9),
    half=st.floats(0.0, 1.0),
)
def test_widening_only_widens(value: float, under: float, over: float, half: float) -> None:
    seen = Interval(value=value, low=value * (1 - under), high=value * (1 + over), level=0.95, n=9)
    got = _widened(seen, half)
    assert got.low <= seen.low * (1 + 1e-9)
    assert got.high >= seen.high * (1 - 1e-9)
    assert got.low <= value * math.exp(-half) * (1 + 1e-9)
    assert got.value == value


def test_an_open_interval_stays_open() -> None:
    seen = Interval(value=2.0, low=-math.inf, high=math.inf, level=0.95, n=1)
    got = _widened(seen, 0.1)
    assert (got.low, got.high) == (0.0, math.inf)


def test_streams_without_common_prompts_are_not_compared() -> None:
    other = Throughput(streams=(replace(stream(1, 2.0), latencies=(("q", 100, 2.0),)),))
    assert against_base([run(1.0)], [other]).speed_ups == ()
    assert against_base([run(1.0)], [Throughput(streams=())]).speed_ups == ()


@pytest.mark.parametrize("where", [0, 1, 2, 3])
def test_a_failed_request_in_any_measurement_leaves_no_speed_up(where: int) -> None:
    runs = [run(1.0, 3.0), run(1.0, 3.0), run(2.0, 4.5), run(2.0, 4.5)]
    first, second = runs[where].streams
    runs[where] = Throughput(streams=(replace(first, failed=1), second))
    got = against_base(runs[:2], runs[2:])
    assert [up.concurrency for up in got.speed_ups] == [8]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({1: 2.0, 16: 0.5}, 1 * 16 ** (1 / 1.5)),
        ({1: 2.0, 8: 1.0, 16: 0.5}, 8.0),
        ({1: 2.0, 8: 1.5}, None),
        ({1: 0.9, 8: 0.5}, None),
        ({}, None),
    ],
)
def test_break_even(values: dict[int, float], expected: float | None) -> None:
    ups = [
        SpeedUp(
            concurrency=c,
            ratio=Interval(value=v, low=v, high=v, level=0.95, n=9),
            base_tokens_per_second=1.0,
        )
        for c, v in values.items()
    ]
    assert break_even(ups) == (None if expected is None else pytest.approx(expected))
