"""A bisect: ends first, then the search, every reading kept."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eagle3_checks.bisect.cache import Cache
from eagle3_checks.bisect.criterion import Criterion, contrast, figure, shares
from eagle3_checks.bisect.launch import Enough, launch
from eagle3_checks.bisect.points import Point
from eagle3_checks.bisect.readings import Reading
from eagle3_checks.bisect.search import Boundary, Side, search
from eagle3_checks.facts import Interval
from eagle3_checks.identity import (
    drafter_identity,
    flags_identity,
    release_identity,
    target_identity,
)
from eagle3_checks.measure.machine import hardware
from eagle3_checks.measure.prompts import load_prompts
from eagle3_checks.measure.statistics import LEVEL
from eagle3_checks.profile import Resolved
from eagle3_checks.report.result import tool_version
from eagle3_checks.verdict import Status

_UNSAFE = re.compile(r"[^\w.-]+")

Resolve = Callable[[Point], Resolved]
"""The profile that serves a point."""
Launch = Callable[[Resolved, Criterion, Path, Enough], Reading]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One measurement of one point."""

    reading: Reading
    figure: Interval | None
    good: bool | None
    """Above the threshold, or the rule passed; None where it cannot be told."""
    kept: bool
    """Whether an earlier run had made it."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a bisect found."""

    points: tuple[Point, ...]
    criterion: Criterion
    measured: dict[int, list[Measured]]
    threshold: float | None
    given: bool
    """Whether the threshold was asked for; otherwise it lies halfway between the ends."""
    boundary: Boundary | None = None
    worse: bool = True
    """Whether the first end is the good one."""
    trouble: str = ""
    """Why no boundary was searched for."""

    @property
    def paired(self) -> bool:
        """Whether points were held against the ends prompt by prompt."""
        return not self.given and self.criterion.stage == "acceptance"

    @property
    def launches(self) -> int:
        """Launches of this run; what was kept from an earlier one is not among them."""
        return sum(m.reading.launched and not m.kept for m in self._all())

    @property
    def kept(self) -> int:
        """Measurements taken from an earlier run."""
        return sum(m.kept for m in self._all())

    def _all(self) -> list[Measured]:
        return [m for entries in self.measured.values() for m in entries]


class EndError(Exception):
    """The ends cannot be told apart, so that there is nothing to search between them."""


class Bisect:
    """The points, and what has been measured of them."""

    def __init__(  # noqa: PLR0913 - what a bisect consists of
        self,
        points: Sequence[Point],
        criterion: Criterion,
        resolve: Resolve,
        folder: Path,
        *,
        threshold: float | None = None,
        tell: Callable[[str], None] = lambda _: None,
        launcher: Launch = launch,
    ) -> None:
        """Nothing is measured yet. `folder` takes logs and the readings that are kept."""
        self.points = tuple(points)
        self.criterion = criterion
        self.threshold = threshold
        self.measured: dict[int, list[Measured]] = {}
        self._given = threshold is not None
        self._resolve = resolve
        self._folder = folder
        self._cache = Cache(folder / "readings")
        self._tell = tell
        self._launch = launcher
        self._first_good = True
        self._ends: tuple[Reading, Reading] | None = None
        error = resolve(self.points[0]).profile.judging.error
        # One share of the error for each launch, so that all verdicts together err that rarely.
        self._level = 1 - error / (math.ceil(math.log2(len(points))) + 3)

    def run(self) -> Outcome:
        """Verify the ends, search, and confirm. Raises OSError where a reading cannot be kept."""
        boundary, trouble = None, ""
        try:
            self._verify_ends()
            boundary = search(len(self.points), self._ask)
        except EndError as error:
            trouble = str(error)
        return Outcome(
            points=self.points,
            criterion=self.criterion,
            measured=dict(sorted(self.measured.items())),
            threshold=self.threshold,
            given=self._given,
            boundary=boundary,
            worse=self._first_good,
            trouble=trouble,
        )

    def _verify_ends(self) -> None:
        """Measure both ends, and settle the threshold where none was given. Raises EndError."""
        first, last = 0, len(self.points) - 1
        between = self.criterion.kind != "rule" and not self._given
        pair = [self._measure(index, 1, all_of_it=between) for index in (first, last)]
        if between and None not in (pair[0].figure, pair[1].figure):
            self._settle(pair[0], pair[1])
        ends = [self.measured[index][0].good for index in (first, last)]
        for index, good in zip((first, last), ends, strict=True):
            if good is None:
                why = self.measured[index][0].reading.trouble or "too noisy"
                raise EndError(f"{self.points[index].name} cannot be told: {why}")
        if ends[0] == ends[1]:
            word = "good" if ends[0] else "bad"
            raise EndError(f"both ends are {word} by {self.criterion.name}; there is no boundary")
        self._first_good = bool(ends[0])

    def _settle(self, first: Measured, last: Measured) -> None:
        """Put the threshold halfway between ends that differ for certain. Raises EndError."""
        pair = first.reading, last.reading
        a, b = first.figure, last.figure
        if a is None or b is None:
            return
        counted = [shares(self.criterion, reading) for reading in pair]
        if all(counted):
            apart = contrast([(1.0, counted[0]), (-1.0, counted[1])], self._level)
            differ = apart is not None and (apart.low > 0 or apart.high < 0)
        else:
            differ = a.high < b.low or b.high < a.low
        if not differ:
            raise EndError(
                f"the ends do not differ by {self.criterion.name} as far as this many prompts "
                f"can tell ({a.value:.2f} and {b.value:.2f}); give --threshold, or more prompts"
            )
        self.threshold, self._ends = (a.value + b.value) / 2, pair
        for index, own, other in ((0, a, b), (len(self.points) - 1, b, a)):
            # They differ for certain, so that each is on its own side of the middle.
            self.measured[index] = [
                replace(m, good=own.value > other.value) for m in self.measured[index]
            ]

    def _ask(self, index: int, number: int) -> Side:
        good = self._measure(index, number).good
        if good is None:
            return Side.OPEN
        return Side.FIRST if good == self._first_good else Side.LAST

    def _measure(self, index: int, number: int, *, all_of_it: bool = False) -> Measured:
        """Measure a point: what the profile asks for, and more where that may decide."""

        def enough(reading: Reading) -> bool:
            return not all_of_it and self._judged(reading).good is not None

        point = self.points[index]
        reading, kept = self._read(point, number, enough)
        found = self._judged(reading, kept=kept)
        self.measured.setdefault(index, []).append(found)
        self._tell(told(point, found))
        return found

    def _read(self, point: Point, number: int, enough: Enough) -> tuple[Reading, bool]:
        resolved = self._resolve(point)
        drafter = resolved.profile.drafter.path
        known = drafter_identity(drafter)
        if known is None:
            return Reading(trouble=f"{drafter}: its files cannot be read", launched=False), False
        key = self._key(resolved, known, number)
        kept = self._cache.get(key)
        if kept is not None and (kept.whole or enough(kept)):
            return kept, True
        place = self._folder / "launches" / _UNSAFE.sub("_", f"{point.name}-{number}")
        reading = self._launch(resolved, self.criterion, place, enough)
        self._cache.put(key, reading)
        return reading, False

    def _judged(self, reading: Reading, *, kept: bool = False) -> Measured:
        level = self._level if self._given else LEVEL
        seen = None if reading.trouble else figure(self.criterion, reading, level)
        good: bool | None = None
        if self.criterion.kind == "rule":
            status = reading.statuses.get(self.criterion.code, "")
            good = {Status.PASS.value: True, Status.FAIL.value: False}.get(status)
        elif seen is not None and self.threshold is not None:
            held, bound = self._against_ends(reading) or seen, self.threshold
            bound = 0.0 if held is not seen else bound
            good = True if held.low >= bound else False if held.high < bound else None
        return Measured(reading=reading, figure=seen, good=good, kept=kept)

    def _against_ends(self, reading: Reading) -> Interval | None:
        """Return how far a reading is above the middle of the ends, prompt by prompt."""
        if self._ends is None:
            return None
        own, first, last = (shares(self.criterion, r) for r in (reading, *self._ends))
        if not (own and first and last):
            return None
        return contrast([(1.0, own), (-0.5, first), (-0.5, last)], self._level)

    def _key(self, resolved: Resolved, drafter: str, number: int) -> dict[str, Any]:
        profile = resolved.profile
        # A rule is judged by the profile's floors, a figure by a threshold of ours.
        without = ("judging.",) if self.criterion.kind == "rule" else ("judging.", "floors.")
        return {
            "drafter": drafter,
            "target": target_identity(profile.target.path),
            "flags": flags_identity(profile, without=without),
            "prompts": load_prompts(profile.prompts).sha256,
            "hardware": hardware(profile),
            "sglang": release_identity(profile),
            "suite": tool_version(),
            "stage": self.criterion.stage,
            "number": number,
        }


def told(point: Point, found: Measured) -> str:
    """Return a line about one measurement, as it is made."""
    value = found.figure
    shown = f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]" if value else ""
    shown = shown or found.reading.trouble or ", ".join(found.reading.statuses.values())
    return "   ".join((point.name, shown, *(("kept from an earlier run",) if found.kept else ())))
