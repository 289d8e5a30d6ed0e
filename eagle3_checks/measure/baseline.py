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
    history: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    """Summary of every run under this key, oldest first."""


def find(path: Path, key: Key) -> Record | None:
    """Return the baseline to compare with, or None.

    In a folder that is the one with the same key; a file is taken whatever its key. Raises
    BaselineError.
    """
    if path.is_file():
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
    except (ValueError, LookupError, TypeError) as error:
        raise BaselineError(f"{path}: is no baseline: {type(error).__name__}: {error}") from error


def _record(path: Path, data: Mapping[str, Any]) -> Record:
    if data["format"] != FORMAT:
        raise ValueError(f"format {data['format']}, but this version reads {FORMAT}")
    return Record(
        path=path,
        key=dict(data["key"]),
        recorded=str(data["recorded"]),
        accept_length=float(data["accept_length"]),
        counts={
            (str(s), str(p)): (int(steps), int(correct)) for s, p, steps, correct in data["prompts"]
        },
        history=tuple(dict(entry) for entry in data["history"]),
    )


def nearest(folder: Path, key: Key) -> tuple[Path, tuple[str, ...]] | None:
    """Return the folder's baseline that differs in the fewest parts of the key, or None."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append((path, key.differences(read(path).key)))
        except BaselineError:
            continue
    return min(found, key=lambda entry: len(entry[1]), default=None)


def summary(acceptance: Acceptance, *, when: str, verdict: str) -> dict[str, Any]:
    """Return what the history keeps of a run; its speed is added once that is measured."""
    length = acceptance.accept_length
    return {
        "recorded": when,
        "verdict": verdict,
        "accept_length": length.value if length else None,
        "low": length.low if length and math.isfinite(length.low) else None,
        "high": length.high if length and math.isfinite(length.high) else None,
        "prompts": acceptance.prompts,
        "verify_steps": acceptance.verify_steps,
    }


def add_speed(path: Path, when: str, throughput: Throughput) -> None:
    """Add the speed to the history's entry of the run at `when`. Raises BaselineError."""
    kept = read(path)
    speeds = {str(s.concurrency): s.tokens_per_second for s in throughput.streams}
    history = [
        {**entry, "tokens_per_second": speeds} if entry.get("recorded") == when else entry
        for entry in kept.history
    ]
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
