"""Intervals for ratios of counts that are clustered by prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist

from eagle3_checks.facts import Interval

LEVEL = 0.95
LEAST_LEAN = 1e-6
"""Below it the correction is smaller than rounding."""
ACCEPTED_SKEW = -2.5
"""Skewness that accept lengths are taken to have between prompts, unless they are seen to lean to
the right: few prompts are far worse than the rest, and a sample without them looks symmetric. The
tiny pair's have -3.3 and, made noisy, -1.5 (benchmarks/tiny_counts.json)."""


def ratio_interval(
    numerators: Sequence[float],
    denominators: Sequence[float],
    *,
    level: float = LEVEL,
    skew: float = 0.0,
) -> Interval | None:
    """Return the pooled ratio ``sum(numerators) / sum(denominators)`` with its interval.

    One pair of counts a prompt. Steps of one prompt resemble each other, so the prompt is the unit:
    the variance is the linearised one of a ratio estimator (Cochran, Sampling Techniques, 3rd ed.,
    6.4), the quantile Student's t with n - 1 degrees of freedom, corrected for skewness. A ratio of
    zero has no variance to estimate from; its upper bound is the exact Poisson one over the whole
    denominator. No ratio of counts is below zero. `skew` is taken for the skewness between prompts
    where what is seen is nearer to zero. None where the denominators sum to zero.
    """
    total = math.fsum(denominators)
    n = sum(1 for d in denominators if d > 0)
    if total <= 0:
        return None
    ratio = math.fsum(numerators) / total
    if ratio == 0:
        high = -math.log((1 - level) / 2) / total
        return Interval(value=0.0, low=0.0, high=high, level=level, n=n)
    if n == 1:
        return Interval(value=ratio, low=-math.inf, high=math.inf, level=level, n=n)
    residuals = [a - ratio * b for a, b in zip(numerators, denominators, strict=True)]
    found = around(ratio, [r * n / total for r in residuals], level=level, n=n, skew=skew)
    return found if found.low >= 0 else replace(found, low=0.0)


def mean_interval(
    values: Sequence[float], *, level: float = LEVEL, skew: float = 0.0
) -> Interval | None:
    """Return the mean of independent values with its interval; None without values."""
    n = len(values)
    if not n:
        return None
    mean = math.fsum(values) / n
    if n == 1:
        return Interval(value=mean, low=-math.inf, high=math.inf, level=level, n=n)
    return around(mean, [v - mean for v in values], level=level, n=n, skew=skew)


def around(
    value: float, residuals: Sequence[float], *, level: float, n: int, skew: float = 0.0
) -> Interval:
    """Return the interval of an estimate that is the mean of n units with these residuals.

    The plain t interval of data that lean to one side misses on the other; Hall's monotone
    transformation (JRSS B 54, 1992) takes the skewness out of it.
    """
    squares = math.fsum(r * r for r in residuals)
    error = math.sqrt(squares / (n - 1) / n)
    seen = math.fsum(r**3 for r in residuals) / n / (squares / n) ** 1.5 if squares > 0 else 0.0
    lean = _leaning(seen, skew, n) / math.sqrt(n)
    quantile = student_t(level, n - 1)
    return Interval(
        value=value,
        low=value - error * _unskewed(quantile, lean),
        high=value - error * _unskewed(-quantile, lean),
        level=level,
        n=n,
    )


def _leaning(seen: float, assumed: float, n: int) -> float:
    """Return the skewness to reckon with: the assumed one, unless the data lean more or elsewhere.

    No n values have one above (n - 2) / sqrt(n - 1), and no more than half of that is assumed.
    """
    assumed = math.copysign(min(abs(assumed), (n - 2) / math.sqrt(n - 1) / 2), assumed)
    return assumed if seen * assumed >= 0 and abs(seen) < abs(assumed) else seen


def _unskewed(quantile: float, lean: float) -> float:
    """Quantile of a t statistic whose data have this skewness / sqrt(n): Hall's g inverted."""
    if abs(lean) < LEAST_LEAN:
        return quantile
    return 3 / lean * (math.cbrt(1 + lean * (quantile - lean / 6)) - 1)


def shift(interval: Interval, by: float) -> Interval:
    """Return the interval of the estimate plus a constant."""
    return Interval(
        value=interval.value + by,
        low=interval.low + by,
        high=interval.high + by,
        level=interval.level,
        n=interval.n,
    )


def student_t(level: float, freedom: int) -> float:
    """Two-sided Student's t quantile by Hill's algorithm 396 (CACM 13, 1970)."""
    p = 1 - level
    if freedom == 1:
        return 1 / math.tan(p * math.pi / 2)
    if freedom == 2:  # noqa: PLR2004 - the closed form of two degrees of freedom
        return math.sqrt(2 / (p * (2 - p)) - 2)
    a = 1 / (freedom - 0.5)
    b = (48 / a) / a
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * freedom
    y = (d * p) ** (2 / freedom)
    if y > 0.05 + a:
        x = NormalDist().inv_cdf(p / 2)
        y = x * x
        if freedom < 5:  # noqa: PLR2004 - as in the algorithm
            c += 0.3 * (freedom - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = math.expm1(a * y * y)
    else:
        y = (
            (
                1 / (((freedom + 6) / (freedom * y) - 0.089 * d - 0.822) * (freedom + 2) * 3)
                + 0.5 / (freedom + 4)
            )
            * y
            - 1
        ) * (freedom + 1) / (freedom + 2) + 1 / y
    return math.sqrt(freedom * y)
