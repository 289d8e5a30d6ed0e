"""What good and bad mean: a figure against a threshold, or how one rule ends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from eagle3_checks.bisect.readings import Reading
from eagle3_checks.facts import Interval
from eagle3_checks.measure.statistics import ratio_interval, shift
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
    key = str(criterion.number)
    if criterion.kind == "tok/s":
        return reading.speeds.get(key)
    if criterion.kind == "speed-up":
        return reading.speed_ups.get(key)
    used = [c for c in reading.counts if c.verify_steps]
    steps = [c.verify_steps for c in used]
    if criterion.kind == "accept-length":
        ratio = ratio_interval([c.correct for c in used], steps, level=level)
        return shift(ratio, 1.0) if ratio else None
    if criterion.kind == "accept-rate":
        return ratio_interval([c.correct for c in used], [c.proposed for c in used], level=level)
    deep = [c.histogram for c in used if c.histogram is not None]
    if criterion.kind != "position" or len(deep) < len(used):
        return None
    return ratio_interval([sum(h[criterion.number :]) for h in deep], steps, level=level)
