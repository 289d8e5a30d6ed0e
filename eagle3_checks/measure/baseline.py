"""Recorded runs to hold later ones against: one JSON file for each key, with its history."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eagle3_checks.facts import Acceptance, RequestSample, Throughput
from eagle3_checks.measure.judging import PromptKey

FORMAT = 1
MAX_BYTES = 64 << 20


class BaselineError(ValueError):
    """A baseline that cannot be read or written; the message names the file."""


@dataclass(frozen=True, kw_only=True)
class Key:
    """What two runs must share to be compared."""

    target: str
    drafter: str
    sglang: str
    gpu: str
    dtype: str
    speculation: str
    prompts: str

    @property
    def file(self) -> str:
        """Name of the key's file."""
        canon = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return f"{hashlib.sha256(canon.encode()).hexdigest()[:16]}.json"

    def differences(self, other: Mapping[str, Any]) -> tuple[str, ...]:
        """Name the parts that differ, as in ``sglang: 0.5.22 then, 0.5.23 now``."""
        own = dataclasses.asdict(self)
        return tuple(
            f"{name}: {other.get(name, '(unknown)')} then, {value} now"
            for name, value in own.items()
            if other.get(name) != value
        )


@dataclass(frozen=True, kw_only=True)
class Record:
    """A baseline as its file holds it."""

    path: Path
    key: Mapping[str, Any]
    recorded: str
    accept_length: float
    counts: Mapping[PromptKey, tuple[int, int]]
    """Verify steps and correct drafts by prompt."""
    per_position: tuple[float, ...] | None = None
    """Share of verify steps in which the draft at position 1, 2, … was correct (chain only)."""
    history: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    """Summary of every run under this key, oldest first."""


def find(path: Path, key: Key) -> Record | None:
    """Return the baseline to compare with, or None.

    In a folder that is the one with the same key; a file is taken whatever its key, and has to be
    there. Raises BaselineError.
    """
    if path.is_file() or path.suffix == ".json":
        return read(path)
    own = path / key.file
    return read(own) if own.is_file() else None


def read(path: Path) -> Record:
    """Read one baseline. Raises BaselineError."""
    try:
        size = path.stat().st_size
        data = json.loads(path.read_text(encoding="utf-8")) if size <= MAX_BYTES else {}
    except (OSError, UnicodeDecodeError) as error:
        raise BaselineError(f"{path}: cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{path}: is not JSON: {error}") from error
    if size > MAX_BYTES:
        raise BaselineError(f"{path}: larger than 64 MiB; no baseline is")
    try:
        return _record(path, data)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise BaselineError(f"{path}: is no baseline: {type(error).__name__}: {error}") from error


def _record(path: Path, data: Mapping[str, Any]) -> Record:
    if data["format"] != FORMAT:
        raise ValueError(f"format {data['format']}, but this version reads {FORMAT}")
    return Record(
        path=path,
        key={str(name): str(value) for name, value in data["key"].items()},
        recorded=str(data["recorded"]),
        accept_length=_length(data["accept_length"]),
        counts={
            (str(s), str(p)): _counts(steps, correct) for s, p, steps, correct in data["prompts"]
        },
        per_position=_shares(data.get("per_position")),
        history=tuple(_entry(entry) for entry in data["history"]),
    )


def _length(value: object) -> float:
    if type(value) not in (int, float) or not 1 <= float(str(value)) < math.inf:
        raise ValueError(f"an accept length of {value}")
    return float(str(value))


def _counts(steps: object, correct: object) -> tuple[int, int]:
    """Return verify steps and correct drafts, as a server that contradicts nothing counts them."""
    if type(steps) is not int or type(correct) is not int or min(steps, correct) < 0:
        raise ValueError(f"{correct} correct drafts in {steps} verify steps")
    if correct and not steps:
        raise ValueError(f"{correct} correct drafts without a verify step")
    return steps, correct


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line of history whose figures are numbers."""
    for name in ("accept_length", "low", "high"):
        if entry.get(name) is not None and not math.isfinite(entry[name]):
            raise ValueError(f"a history with {name} {entry[name]}")
    _shares(entry.get("per_position"))
    for speed in (entry.get("tokens_per_second") or {}).values():
        float(speed)
    return dict(entry)


def _shares(value: Sequence[float] | None) -> tuple[float, ...] | None:
    """Return shares by position; runs recorded before they were kept have none."""
    return None if value is None else tuple(float(share) for share in value)


def nearest(folder: Path, key: Key) -> tuple[Path, tuple[str, ...]] | None:
    """Return the folder's baseline that differs in the fewest parts of the key, or None."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append((path, key.differences(read(path).key)))
        except BaselineError:
            continue
    return min(found, key=lambda entry: len(entry[1]), default=None)


def summary(acceptance: Acceptance, key: Key, *, when: str, verdict: str) -> dict[str, Any]:
    """Return what the history keeps of a run; its speed is added once that is measured."""
    length, positions = acceptance.accept_length, acceptance.per_position
    return {
        "recorded": when,
        "verdict": verdict,
        "sglang": key.sglang,
        "accept_length": length.value if length else None,
        "low": length.low if length and math.isfinite(length.low) else None,
        "high": length.high if length and math.isfinite(length.high) else None,
        "prompts": acceptance.prompts,
        "verify_steps": acceptance.verify_steps,
        "per_position": None if positions is None else list(positions),
    }


def past(folder: Path, key: Key) -> tuple[Mapping[str, Any], ...]:
    """Return the histories of all baselines that differ from the key in nothing but SGLang.

    Oldest first; a trend is there to show what an upgrade did. Files that are no baseline are
    passed over.
    """
    entries: list[Mapping[str, Any]] = []
    for path in sorted(folder.glob("*.json")):
        try:
            kept = read(path)
        except BaselineError:
            continue
        sglang = str(kept.key.get("sglang"))
        if not dataclasses.replace(key, sglang=sglang).differences(kept.key):
            entries += ({"sglang": sglang, **entry} for entry in kept.history)
    return tuple(sorted(entries, key=lambda entry: str(entry.get("recorded"))))


def add_speed(path: Path, when: str, throughput: Throughput) -> None:
    """Add the speed to the history's entry of the run at `when`. Raises BaselineError."""
    kept = read(path)
    speeds = {str(s.concurrency): s.tokens_per_second for s in throughput.streams}
    history = list(kept.history)
    at = [number for number, entry in enumerate(history) if entry.get("recorded") == when]
    if at:  # the last one, should two runs have ended within a second
        history[at[-1]] = {**history[at[-1]], "tokens_per_second": speeds}
    write(dataclasses.replace(kept, history=history))


def record(
    path: Path, key: Key, acceptance: Acceptance, samples: Sequence[RequestSample], when: str
) -> Record:
    """Make a baseline of a run, keeping the history that the file at `path` already has.

    Raises BaselineError where there is no accept length, or the old file cannot be read.
    """
    if acceptance.accept_length is None:
        raise BaselineError("a run without an accept length cannot be a baseline")
    return Record(
        path=path,
        key=dataclasses.asdict(key),
        recorded=when,
        accept_length=acceptance.accept_length.value,
        counts={(s.prompt_set, s.prompt_id): (s.verify_steps, s.correct_drafts) for s in samples},
        per_position=acceptance.per_position,
        history=read(path).history if path.is_file() else (),
    )


def write(kept: Record, entry: Mapping[str, Any] | None = None) -> None:
    """Write a baseline, with one more line of history; beside first, then renamed.

    Raises BaselineError.
    """
    history = [*kept.history, *([dict(entry)] if entry else [])]
    data = {
        "format": FORMAT,
        "key": dict(kept.key),
        "recorded": kept.recorded,
        "accept_length": kept.accept_length,
        "per_position": kept.per_position,
        "prompts": [[*prompt, *counts] for prompt, counts in kept.counts.items()],
        "history": history,
    }
    beside = kept.path.with_name(f".{kept.path.name}.{os.getpid()}")
    try:
        kept.path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        beside.replace(kept.path)
    except OSError as error:
        raise BaselineError(f"{kept.path}: cannot be written: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
