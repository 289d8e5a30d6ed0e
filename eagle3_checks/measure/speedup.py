"""How much faster a server is with speculation, from repeated measurements with and without."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from eagle3_checks.facts import Interval, SpeedUp, Stream, Throughput
from eagle3_checks.measure.statistics import LEVEL, ratio_interval, student_t


class Drift(NamedTuple):
    """What moves a whole measurement, and with it all its prompts."""

    spread: float
    """Standard deviation of the logarithm of a speed from one measurement to the next."""
    freedom: int
    """Degrees of freedom that the spread rests on."""


def against_base(fast: Sequence[Throughput], base: Sequence[Throughput]) -> Throughput:
    """Return the first of `fast` with the speed-up over `base`, each measured several times.

    A concurrency at which a request failed has no speed-up.
    """
    drift = _drift((fast, base))
    ups = []
    for stream in fast[0].streams:
        pair = [_at(stream.concurrency, runs) for runs in (fast, base)]
        up = _speed_up(*pair, drift=drift)
        if up is not None:
            ups.append(up)
    return replace(
        fast[0],
        again=tuple(s for run in fast[1:] for s in run.streams),
        base=base[0].streams,
        base_again=tuple(s for run in base[1:] for s in run.streams),
        speed_ups=tuple(ups),
        break_even=break_even(ups),
    )


def break_even(ups: Sequence[SpeedUp]) -> float | None:
    """Return the concurrency at which the speed-up falls to 1, between two measured ones.

    Interpolated over the logarithm of the concurrency. None where it stays on one side.
    """
    ordered = sorted(ups, key=lambda up: up.concurrency)
    for low, high in itertools.pairwise(ordered):
        gain, loss = low.ratio.value - 1, 1 - high.ratio.value
        if gain >= 0 and loss > 0:
            share = gain / (gain + loss)
            return float(low.concurrency * (high.concurrency / low.concurrency) ** share)
    return None


def by_prompt(latencies: Iterable[tuple[str, int, float]]) -> dict[str, tuple[int, float]]:
    """Sum tokens and seconds of each prompt."""
    sums: dict[str, tuple[int, float]] = {}
    for prompt, tokens, seconds in latencies:
        before = sums.get(prompt, (0, 0.0))
        sums[prompt] = (before[0] + tokens, before[1] + seconds)
    return sums


def scaled(ratio: Interval, value: float) -> Interval:
    """Return an interval of the same relative width around another value."""
    factor = value / ratio.value if ratio.value else 0.0
    ends = [end * factor if math.isfinite(end) else end for end in (ratio.low, ratio.high)]
    return Interval(value=value, low=ends[0], high=ends[1], level=LEVEL, n=ratio.n)


def _at(concurrency: int, runs: Iterable[Throughput]) -> tuple[Stream, ...]:
    return tuple(s for run in runs for s in run.streams if s.concurrency == concurrency)


def _speed_up(
    fast: Sequence[Stream], base: Sequence[Stream], *, drift: Drift | None
) -> SpeedUp | None:
    """Compare by the time that each prompt took; None without common prompts or with failures."""
    streams = (*fast, *base)
    if not (fast and base) or any(s.failed or not s.tokens_per_second for s in streams):
        return None
    with_it, without = (by_prompt(t for s in side for t in s.latencies) for side in (fast, base))
    common = [p for p in with_it if p in without and with_it[p][0] and without[p][0]]
    # Seconds for the same number of tokens, should a request have brought fewer.
    times = [with_it[p][1] / with_it[p][0] for p in common]
    base_times = [without[p][1] / without[p][0] for p in common]
    ratio = ratio_interval(base_times, times)
    if ratio is None:
        return None
    slow = _mean_speed(base)
    seen = scaled(ratio, _mean_speed(fast) / slow)
    if drift is not None:
        half = student_t(LEVEL, drift.freedom) * drift.spread
        seen = _widened(seen, half * math.sqrt(1 / len(fast) + 1 / len(base)))
    return SpeedUp(
        concurrency=fast[0].concurrency,
        ratio=seen,
        base_tokens_per_second=slow,
        drift=drift.spread if drift else None,
    )


def _mean_speed(streams: Sequence[Stream]) -> float:
    """Geometric mean, as fits a ratio."""
    logs = [math.log(s.tokens_per_second) for s in streams]
    return math.exp(math.fsum(logs) / len(logs))


def _drift(servers: Iterable[Sequence[Throughput]]) -> Drift | None:
    """Pool over servers and concurrencies how far repetitions lie apart; None without any.

    The prompts of a repetition are the same, so what differs is not theirs.
    """
    squares, freedom = 0.0, 0
    for runs in servers:
        for concurrency in {s.concurrency for run in runs for s in run.streams}:
            speeds = [s.tokens_per_second for s in _at(concurrency, runs)]
            logs = [math.log(v) for v in speeds if v > 0]
            if len(logs) > 1:
                mean = math.fsum(logs) / len(logs)
                squares += math.fsum((v - mean) ** 2 for v in logs)
                freedom += len(logs) - 1
    return Drift(math.sqrt(squares / freedom), freedom) if freedom else None


def _widened(seen: Interval, half: float) -> Interval:
    """Add an independent uncertainty, given as half the width of its interval on a log scale.

    Half widths add as squares (Zou and Donner, Statistics in Medicine 27, 2008).
    """
    low = high = math.inf
    if seen.low > 0:
        low = math.hypot(math.log(seen.value / seen.low), half)
    if math.isfinite(seen.high):
        high = math.hypot(math.log(seen.high / seen.value), half)
    return replace(seen, low=seen.value * math.exp(-low), high=seen.value * math.exp(high))
