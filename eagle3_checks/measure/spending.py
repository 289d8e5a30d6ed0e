"""When a run may be looked at, and how sure it must be at each look: group-sequential boundaries.

Looking at a growing sample again and again and stopping when it pleases makes false verdicts
common: ten looks at a plain 95 % interval err in one run of five. Here the stated error is spent
over the looks (Lan and DeMets, Biometrika 70, 1983), and each look's share is turned into the
boundary of a Brownian motion by integrating over the paths that crossed none before (Armitage,
McPherson and Rowe, JRSS A 132, 1969; Jennison and Turnbull, Group Sequential Methods, 1999,
chapters 7 and 19). For unknown variance the boundary's nominal level is applied to Student's t
(section 11.4 there); what is left of the approximation is measured by benchmarks/statistics.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

LEAST_PROMPTS = 4
"""No look but the last rests on fewer prompts: a variance from less says too little."""
LEAST_STEP = 4
GROWTH = 0.125
"""Looks are at least so far apart, as a share of the prompts seen: late ones say little that is
new."""
EXPONENT = 0.5
KEPT_BACK = 0.25
"""Share of the stated error that is not spent, for what Student's t does not see of skewed data."""
POINTS = 121
REACH = 8.0
HALVINGS = 50


def look_sizes(planned: int, *, concurrency: int = 1) -> tuple[int, ...]:
    """Return the numbers of prompts after which to look, the last one being all of them.

    Looks fall on multiples of `concurrency`, so that no request is in flight at one.
    """
    sizes = []
    size = _multiple(LEAST_PROMPTS, concurrency)
    while size < planned:
        sizes.append(size)
        size += _multiple(max(LEAST_STEP, GROWTH * size), concurrency)
    return (*sizes, planned)


def _multiple(number: float, of: int) -> int:
    return math.ceil(number / of) * of


def spent(share: float, error: float) -> float:
    """Return the error spent once this share of the prompts is in.

    The power family (Kim and DeMets, Biometrika 74, 1987) with an exponent below that of Pocock's
    boundary: it lets a clear case end early and costs a close one a wider interval. Late looks
    need it: the rare prompt that is far worse than the rest moves the truth as much at any size,
    and a sample without it is all the surer of itself the larger it is.
    """
    return error * (1 - KEPT_BACK) * math.pow(min(1.0, share), EXPONENT)


@cache
def nominal_levels(sizes: tuple[int, ...], error: float) -> tuple[float, ...]:
    """Return the two-sided nominal error of each look such that all together err by `error`."""
    planned = sizes[-1]
    times = [size / planned for size in sizes]
    levels: list[float] = []
    grid: list[float] = []
    density: list[float] = []
    before = 0.0
    for index, time in enumerate(times):
        share = spent(time, error) - (spent(times[index - 1], error) if index else 0.0)
        spread = math.sqrt(time - before)
        boundary = _boundary(grid, density, spread, math.sqrt(time), share)
        levels.append(math.erfc(boundary / math.sqrt(2)))
        grid, density = _advance(grid, density, spread, boundary * math.sqrt(time))
        before = time
    return tuple(levels)


def _boundary(
    grid: Sequence[float], density: Sequence[float], spread: float, scale: float, share: float
) -> float:
    """Find the z at which this look's crossing probability, in both tails, is `share`."""
    low, high = 0.0, REACH
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _crossing(grid, density, spread, middle * scale) > share:
            low = middle
        else:
            high = middle
    return high


def _crossing(grid: Sequence[float], density: Sequence[float], spread: float, edge: float) -> float:
    if not grid:
        return math.erfc(edge / spread / math.sqrt(2))
    unit = spread * math.sqrt(2)
    tails = (
        weight * (math.erfc((edge - at) / unit) + math.erfc((edge + at) / unit)) / 2
        for at, weight in zip(grid, density, strict=True)
    )
    return math.fsum(tails)


def _advance(
    grid: Sequence[float], density: Sequence[float], spread: float, edge: float
) -> tuple[list[float], list[float]]:
    """Return the paths still inside, as points and Simpson-weighted densities."""
    width = 2 * edge / (POINTS - 1)
    points = [-edge + i * width for i in range(POINTS)]
    weights = [
        width / 3 * (1 if i in (0, POINTS - 1) else 4 if i % 2 else 2) for i in range(POINTS)
    ]
    unit = 1 / (spread * math.sqrt(2 * math.pi))
    fresh = []
    for point, weight in zip(points, weights, strict=True):
        if not grid:
            value = math.exp(-0.5 * (point / spread) ** 2)
        else:
            value = math.fsum(
                mass * math.exp(-0.5 * ((point - at) / spread) ** 2)
                for at, mass in zip(grid, density, strict=True)
            )
        fresh.append(weight * unit * value)
    return points, fresh
