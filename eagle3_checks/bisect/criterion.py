"""What good and bad mean: a figure against a threshold, or how one rule ends."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from eagle3_checks.bisect.readings import Reading
from eagle3_checks.facts import Interval
from eagle3_checks.measure.judging import PromptKey
from eagle3_checks.measure.statistics import around, ratio_interval, shift
from eagle3_checks.rules.base import STATIC_FACTS
from eagle3_checks.rules.registry import all_rules, by_code

Kind = Literal["accept-length", "accept-rate", "position", "tok/s", "speed-up", "rule"]
KINDS = "accept-length, accept-rate, position:N, tok/s:STREAMS, speed-up:STREAMS, or a rule's code"
_NUMBERED = re.compile(r"(?P<kind>position|tok/s|speed-up):(?P<number>[1-9]\d{0,4})")


class CriterionError(ValueError):
    """A criterion that is none; the message lists those there are."""


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """What points are compared by."""

    kind: Kind
    number: int = 0
    """Position, or concurrency."""
    code: str = ""

    @property
    def name(self) -> str:
        """The criterion in words."""
        match self.kind:
            case "rule":
                return f"rule {self.code}"
            case "position":
                return f"correct drafts at position {self.number}"
            case "tok/s" | "speed-up":
                streams = "1 stream" if self.number == 1 else f"{self.number} streams"
                return f"{'tok/s' if self.kind == 'tok/s' else 'speed-up'} at {streams}"
            case _:
                return self.kind.replace("-", " ")

    @property
    def heading(self) -> str:
        """The criterion as the heading of a column."""
        return f"{self.kind} {self.number}" if self.number else self.name

    @property
    def stage(self) -> str:
        """What has to be computed for it: a stage of the gate, or a rule's code."""
        stages = {"tok/s": "throughput", "speed-up": "compared", "rule": self.code}
        return stages.get(self.kind, "acceptance")

    @property
    def static(self) -> bool:
        """Whether files alone decide, so that nothing is launched."""
        return self.kind == "rule" and set(by_code(self.code).needs()) <= STATIC_FACTS


def parse(text: str) -> Criterion:
    """Read a criterion as the command line gives it. Raises CriterionError."""
    if text == "accept-length":
        return Criterion(kind="accept-length")
    if text == "accept-rate":
        return Criterion(kind="accept-rate")
    numbered = _NUMBERED.fullmatch(text)
    if numbered:
        kinds: dict[str, Kind] = {"position": "position", "tok/s": "tok/s", "speed-up": "speed-up"}
        return Criterion(kind=kinds[numbered["kind"]], number=int(numbered["number"]))
    code = text.upper()
    if any(rule.code() == code for rule in all_rules()):
        return Criterion(kind="rule", code=code)
    raise CriterionError(f"--by {text}: it must be {KINDS} (`eagle3-checks explain` lists them)")


def figure(criterion: Criterion, reading: Reading, level: float) -> Interval | None:
    """Return the figure of a reading; None where it has none.

    Acceptance has its interval at `level`; speeds keep the level they were measured at.
    """
    if criterion.kind == "tok/s":
        return reading.speeds.get(str(criterion.number))
    if criterion.kind == "speed-up":
        return reading.speed_ups.get(str(criterion.number))
    counted = shares(criterion, reading)
    ratio = ratio_interval(*zip(*counted.values(), strict=True), level=level) if counted else None
    return shift(ratio, 1.0) if ratio and criterion.kind == "accept-length" else ratio


def shares(criterion: Criterion, reading: Reading) -> dict[PromptKey, tuple[int, int]]:
    """Return numerator and denominator of each prompt; nothing where acceptance is not asked for.

    The accept length is 1 + the ratio of the sums.
    """
    used = {(c.prompt_set, c.prompt_id): c for c in reading.counts if c.verify_steps}
    if criterion.kind == "accept-length":
        return {key: (c.correct, c.verify_steps) for key, c in used.items()}
    if criterion.kind == "accept-rate":
        return {key: (c.correct, c.proposed) for key, c in used.items()}
    if criterion.kind != "position" or any(c.histogram is None for c in used.values()):
        return {}
    deep = ((key, c.histogram or (), c.verify_steps) for key, c in used.items())
    return {key: (sum(histogram[criterion.number :]), steps) for key, histogram, steps in deep}


def contrast(
    parts: Sequence[tuple[float, Mapping[PromptKey, tuple[int, int]]]], level: float
) -> Interval | None:
    """Return a weighted sum of ratios over the prompts that all have, with its interval.

    Prompt by prompt the linearised ratios are summed before their spread is taken, so that what
    makes a prompt easy or hard for all drafters cancels out where the weights sum to zero. None
    with fewer than two prompts in common.
    """
    common = set.intersection(*(set(counts) for _, counts in parts))
    n = len(common)
    if n < 2:  # noqa: PLR2004 - no variance from one
        return None
    value, residuals = 0.0, dict.fromkeys(sorted(common), 0.0)
    for weight, counts in parts:
        total = math.fsum(counts[key][1] for key in residuals)
        if not total:
            return None
        ratio = math.fsum(counts[key][0] for key in residuals) / total
        value += weight * ratio
        for key in residuals:
            correct, steps = counts[key]
            residuals[key] += weight * (correct - ratio * steps) * n / total
    return around(value, list(residuals.values()), level=level, n=n)
