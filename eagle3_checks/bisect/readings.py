"""What one launch gave, in the form that is kept: counts by prompt, speeds, how rules ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eagle3_checks.facts import Interval, RequestSample


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The counts of one request, without its text."""

    prompt_set: str
    prompt_id: str
    verify_steps: int
    correct: int
    proposed: int
    histogram: tuple[int, ...] | None = None

    @classmethod
    def of(cls, sample: RequestSample) -> Counts:
        """Take the counts of a sample."""
        return cls(
            prompt_set=sample.prompt_set,
            prompt_id=sample.prompt_id,
            verify_steps=sample.verify_steps,
            correct=sample.correct_drafts,
            proposed=sample.proposed_drafts,
            histogram=sample.histogram,
        )


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One launch of one point, or why there is no figure."""

    sglang: str = ""
    counts: tuple[Counts, ...] = ()
    whole: bool = True
    """Whether all was sent that there is; what is open may be measured longer otherwise."""
    speeds: Mapping[str, Interval] = field(default_factory=dict)
    """Tokens per second by concurrency."""
    speed_ups: Mapping[str, Interval] = field(default_factory=dict)
    """Speed / that without speculation, by concurrency."""
    statuses: Mapping[str, str] = field(default_factory=dict)
    """How the rules that were asked about ended: a status of `eagle3_checks.verdict`."""
    errors: tuple[str, ...] = ()
    """Codes of the errors that the files alone show."""
    trouble: str = ""
    """Why there is no figure."""
    launched: bool = True


def to_json(reading: Reading) -> dict[str, Any]:
    """Return a reading as plain JSON."""
    return {
        "sglang": reading.sglang,
        "counts": [
            [c.prompt_set, c.prompt_id, c.verify_steps, c.correct, c.proposed, c.histogram]
            for c in reading.counts
        ],
        "whole": reading.whole,
        "speeds": {key: _interval(value) for key, value in reading.speeds.items()},
        "speed_ups": {key: _interval(value) for key, value in reading.speed_ups.items()},
        "statuses": dict(reading.statuses),
        "errors": list(reading.errors),
        "trouble": reading.trouble,
        "launched": reading.launched,
    }


def from_json(data: Mapping[str, Any]) -> Reading:
    """Read what `to_json` wrote. Raises LookupError, TypeError or ValueError on anything else."""
    return Reading(
        sglang=str(data["sglang"]),
        counts=tuple(
            Counts(
                prompt_set=str(name),
                prompt_id=str(prompt),
                verify_steps=int(steps),
                correct=int(correct),
                proposed=int(proposed),
                histogram=None if histogram is None else tuple(map(int, histogram)),
            )
            for name, prompt, steps, correct, proposed, histogram in data["counts"]
        ),
        whole=bool(data["whole"]),
        speeds={key: Interval(**value) for key, value in data["speeds"].items()},
        speed_ups={key: Interval(**value) for key, value in data["speed_ups"].items()},
        statuses={str(key): str(value) for key, value in data["statuses"].items()},
        errors=tuple(map(str, data["errors"])),
        trouble=str(data["trouble"]),
        launched=bool(data["launched"]),
    )


def _interval(value: Interval) -> dict[str, float]:
    return {
        "value": value.value,
        "low": value.low,
        "high": value.high,
        "level": value.level,
        "n": value.n,
    }
