"""A bisect: ends first, then the search, every reading kept."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle3_checks.bisect.cache import Cache
from eagle3_checks.bisect.criterion import Criterion, figure
from eagle3_checks.bisect.launch import launch
from eagle3_checks.bisect.points import Point, identity, target_identity
from eagle3_checks.bisect.readings import Reading
from eagle3_checks.bisect.search import Boundary, Side, search
from eagle3_checks.facts import Interval
from eagle3_checks.measure.machine import hardware
from eagle3_checks.measure.prompts import load_prompts
from eagle3_checks.profile import Profile, Resolved
from eagle3_checks.settings import flatten
from eagle3_checks.verdict import Status

LONGER = 4
"""Times as many requests where speed was too noisy; of prompts, all there are are sent."""
_UNKEYED = (
    "name",
    "description",
    "baseline.",
    "judging.",
    "target.path",
    "drafter.path",
    "server.port",
    "server.start_timeout",
    "server.request_timeout",
    "prompts.sets",
)
"""Starts of keys that do not change a reading, or stand in its key in another form."""
_UNSAFE = re.compile(r"[^\w.-]+")

Resolve = Callable[[Point, bool], Resolved]
"""`resolve(point, longer)`: the profile that serves a point."""
Launch = Callable[[Resolved, Criterion, Path], Reading]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One measurement of one point."""

    reading: Reading
    figure: Interval | None
    good: bool | None
    """Above the threshold, or the rule passed; None where it cannot be told."""
    kept: bool
    """Whether an earlier run had made it."""
    longer: bool


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a bisect found."""

    points: tuple[Point, ...]
    criterion: Criterion
    measured: dict[int, list[Measured]]
    level: float
    threshold: float | None
    given: bool
    """Whether the threshold was asked for; otherwise it lies halfway between the ends."""
    boundary: Boundary | None = None
    worse: bool = True
    """Whether the first end is the good one."""
    trouble: str = ""
    """Why no boundary was searched for."""

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
        error = resolve(self.points[0], False).profile.judging.error
        # One share of the error for each launch, so that all verdicts together err that rarely.
        self.level = 1 - error / (math.ceil(math.log2(len(points))) + 3)

    def run(self) -> Outcome:
        """Verify the ends, search, and confirm. Raises OSError where a reading cannot be kept."""
        boundary, trouble = None, ""
        try:
            self._ends()
            boundary = search(len(self.points), self._ask)
        except EndError as error:
            trouble = str(error)
        return Outcome(
            points=self.points,
            criterion=self.criterion,
            measured=dict(sorted(self.measured.items())),
            level=self.level,
            threshold=self.threshold,
            given=self._given,
            boundary=boundary,
            worse=self._first_good,
            trouble=trouble,
        )

    def _ends(self) -> None:
        """Measure both ends, and settle the threshold where none was given. Raises EndError."""
        first, last = 0, len(self.points) - 1
        if self.criterion.kind == "rule" or self._given:
            ends = [self._decided(index, 1).good for index in (first, last)]
        else:
            ends = self._apart(first, last)
        for index, good in zip((first, last), ends, strict=True):
            if good is None:
                raise EndError(f"{self.points[index].name} cannot be told: {self._why(index)}")
        if ends[0] == ends[1]:
            word = "good" if ends[0] else "bad"
            raise EndError(f"both ends are {word} by {self.criterion.name}; there is no boundary")
        self._first_good = bool(ends[0])

    def _apart(self, first: int, last: int) -> list[bool | None]:
        """Put the threshold halfway between two ends whose intervals do not overlap."""
        for longer in (False, True):
            if longer and not self._more(first):
                break
            pair = [self._measure(index, 1, longer=longer) for index in (first, last)]
            figures = [m.figure for m in pair]
            if figures[0] is None or figures[1] is None:
                return [None if f is None else True for f in figures]
            low, high = sorted(figures, key=lambda f: f.value if f else 0.0)
            if low and high and low.high < high.low:
                self.threshold = (low.value + high.value) / 2
                self._settle()
                return [figures[0] is high, figures[1] is high]
        raise EndError(
            f"the ends do not differ by {self.criterion.name} as far as this many prompts can "
            "tell: their intervals overlap; give --threshold, or more prompts (prompts.limit)"
        )

    def _settle(self) -> None:
        """Judge what was measured before the threshold was known."""
        for index, entries in self.measured.items():
            self.measured[index] = [self._judged(m.reading, m.kept, m.longer) for m in entries]

    def _ask(self, index: int, number: int) -> Side:
        good = self._decided(index, number).good
        if good is None:
            return Side.OPEN
        return Side.FIRST if good == self._first_good else Side.LAST

    def _decided(self, index: int, number: int) -> Measured:
        """Measure a point, and longer where that may decide what is open."""
        found = self._measure(index, number)
        statuses = found.reading.statuses.values()
        noisy = Status.INCONCLUSIVE in statuses or (found.figure and not found.reading.trouble)
        if found.good is None and noisy and self._more(index):
            found = self._measure(index, number, longer=True)
        return found

    def _measure(self, index: int, number: int, *, longer: bool = False) -> Measured:
        point = self.points[index]
        reading, kept = self._read(point, number, longer=longer)
        found = self._judged(reading, kept, longer)
        self.measured.setdefault(index, []).append(found)
        self._tell(told(point, found, kept=kept))
        return found

    def _read(self, point: Point, number: int, *, longer: bool) -> tuple[Reading, bool]:
        resolved = self._resolve(point, longer)
        drafter = resolved.profile.drafter.path
        known = _identity(drafter)
        if known is None:
            return Reading(trouble=f"{drafter}: its files cannot be read", launched=False), False
        key = self._key(resolved, known, number, longer=longer)
        kept = self._cache.get(key)
        if kept is not None:
            return kept, True
        place = _UNSAFE.sub("_", f"{point.name}-{number}{'-longer' if longer else ''}")
        reading = self._launch(resolved, self.criterion, self._folder / "launches" / place)
        self._cache.put(key, reading)
        return reading, False

    def _judged(self, reading: Reading, kept: bool, longer: bool) -> Measured:  # noqa: FBT001
        seen = None if reading.trouble else figure(self.criterion, reading, self.level)
        good: bool | None = None
        if self.criterion.kind == "rule":
            status = reading.statuses.get(self.criterion.code, "")
            good = {Status.PASS.value: True, Status.FAIL.value: False}.get(status)
        elif seen is not None and self.threshold is not None:
            good = True if seen.low >= self.threshold else None
            good = False if seen.high < self.threshold else good
        return Measured(reading=reading, figure=seen, good=good, kept=kept, longer=longer)

    def _key(
        self, resolved: Resolved, drafter: str, number: int, *, longer: bool
    ) -> dict[str, Any]:
        profile = resolved.profile
        judged = self.criterion.kind == "rule"  # its floors decide, not a threshold of ours
        flags = {
            name: value
            for name, value in flatten(profile).items()
            if not name.startswith(_UNKEYED) and (judged or not name.startswith("floors."))
        }
        canon = json.dumps(flags, sort_keys=True, default=dict)
        return {
            "drafter": drafter,
            "target": _target(profile.target.path),
            "flags": hashlib.sha256(canon.encode()).hexdigest(),  # they may hold secrets
            "prompts": load_prompts(profile.prompts).sha256,
            "hardware": hardware(profile),
            "stage": self.criterion.stage,
            "number": number,
            "longer": longer,
        }

    def _more(self, index: int) -> bool:
        """Whether a longer measurement is more than the one that was made."""
        if self.criterion.stage in ("throughput", "compared"):
            return True
        short, whole = (self._resolve(self.points[index], w).profile for w in (False, True))
        return len(load_prompts(whole.prompts).prompts) > len(load_prompts(short.prompts).prompts)

    def _why(self, index: int) -> str:
        last = self.measured[index][-1]
        return last.reading.trouble or "too noisy"


def longer(profile: Profile) -> dict[str, Any]:
    """Return the settings of a longer measurement: all prompts of the sets, more requests."""
    return {"prompts.limit": 0, "speed.requests": LONGER * profile.speed.requests}


def told(point: Point, found: Measured, *, kept: bool) -> str:
    """Return a line about one measurement, as it is made."""
    value = found.figure
    shown = f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]" if value else ""
    shown = shown or ", ".join(found.reading.statuses.values()) or found.reading.trouble
    how = "kept from an earlier run" if kept else "measured longer" if found.longer else ""
    return "   ".join(filter(None, (point.name, shown, how)))


_identity = functools.cache(identity)
_target = functools.cache(target_identity)
