"""The probe's files as wiring facts; the probe (``inside/probe``) describes their format."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eagle3_checks.facts import (
    CaptureSeen,
    Corner,
    DraftedSeen,
    ForwardSeen,
    HeadsSeen,
    LoadedTensor,
    LoadSeen,
    StateDigest,
    StatesSeen,
    Wiring,
)

_Line = Mapping[str, Any]


def read_wiring(prefix: Path) -> Wiring:
    """Read ``PREFIX.PID.jsonl`` of all the server's processes.

    The server may be writing: a half-written last line is passed over. So are facts of an unknown
    kind; a broken line elsewhere is reported among the errors.
    """
    seen = _Seen()
    for file in sorted(prefix.parent.glob(f"{prefix.name}.*.jsonl")):
        for line in _lines(file, seen.errors):
            try:
                seen.take(line)
            except (KeyError, TypeError, ValueError) as error:
                what = f"{type(error).__name__}: {error}"
                told = f"{file.name}: a {line.get('fact')!r} line is incomplete ({what})"
                seen.errors[told] = None
    return seen.wiring()


@dataclass
class _Seen:
    """The facts so far; dicts keep each once and in order."""

    sglang: str | None = None
    loads: dict[tuple[int, str, int], LoadSeen] = field(default_factory=dict)
    shared: dict[tuple[int, str, int], tuple[str, ...]] = field(default_factory=dict)
    drafted: dict[int, DraftedSeen] = field(default_factory=dict)
    forwards: dict[ForwardSeen, None] = field(default_factory=dict)
    captures: dict[CaptureSeen, None] = field(default_factory=dict)
    states: dict[StatesSeen, None] = field(default_factory=dict)
    heads: dict[HeadsSeen, None] = field(default_factory=dict)
    corners: dict[str, Corner] = field(default_factory=dict)
    errors: dict[str, None] = field(default_factory=dict)

    def take(self, line: _Line) -> None:
        """Take in one line. Raises KeyError, TypeError, ValueError on one that lacks something."""
        kind = str(line.get("fact"))
        if kind in _EACH_ONCE:
            name, read = _EACH_ONCE[kind]
            getattr(self, name)[read(line)] = None
        match kind:
            case "hello":
                self.sglang = line.get("sglang") or self.sglang
            case "load":
                self.loads[_process(line)] = _load(line)
            case "shared":
                self.shared[_process(line)] = tuple(line["parameters"])
            case "drafted":
                self.drafted[_rank(line)] = _drafted(line)  # the last one counts all
            case "corners" if _rank(line) == 0:
                self.corners.update(_corners(line))

    def wiring(self) -> Wiring:
        """Return all that was taken in."""
        loads = [replace(v, shared=self.shared.get(k, ())) for k, v in self.loads.items()]
        return Wiring(
            sglang=self.sglang,
            loads=tuple(loads),
            forwards=tuple(self.forwards),
            captures=tuple(self.captures),
            errors=tuple(self.errors),
            states=tuple(self.states),
            heads=tuple(self.heads),
            drafted=tuple(self.drafted.values()),
            corners=self.corners,
        )


def read_lines(prefix: Path) -> Iterator[_Line]:
    """Yield every whole line of ``PREFIX.PID.jsonl``; broken ones are passed over."""
    for file in sorted(prefix.parent.glob(f"{prefix.name}.*.jsonl")):
        yield from _lines(file, {})


def _lines(file: Path, errors: dict[str, None]) -> Iterator[_Line]:
    """Yield a file's objects; only a last line without its newline may be broken."""
    whole, _, _ = file.read_bytes().rpartition(b"\n")
    for number, raw in enumerate(whole.split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw)
        except ValueError:
            line = None
        if isinstance(line, dict):
            yield line
        else:
            errors[f"{file.name}: line {number} is not a JSON object"] = None


def _process(line: _Line) -> tuple[int, str, int]:
    return _rank(line), str(line["class"]), int(line.get("pid") or 0)


def _load(line: _Line) -> LoadSeen:
    tensors = tuple(
        LoadedTensor(
            name=str(tensor["name"]),
            shape=tuple(int(n) for n in tensor["shape"]),
            dtype=str(tensor.get("dtype", "")),
            into=tuple(map(str, tensor["into"])),
        )
        for tensor in line["tensors"]
    )
    return LoadSeen(
        model_class=str(line["class"]),
        rank=_rank(line),
        tensors=tensors,
        unwritten=tuple(map(str, line["unwritten"])),
        partly=tuple(map(str, line.get("partly", ()))),
    )


def _forward(line: _Line) -> ForwardSeen:
    return ForwardSeen(
        rank=_rank(line),
        mode=str(line["mode"]),
        width=int(line["width"]),
        embed_width=int(line["embed_width"]),
        fc_ran=bool(line["fc_ran"]),
        fc_in=_optional(line.get("fc_in")),
        fc_out=_optional(line.get("fc_out")),
        capturing=bool(line.get("capturing")),
    )


def _capture(line: _Line) -> CaptureSeen:
    return CaptureSeen(
        rank=_rank(line),
        target_class=str(line["class"]),
        layers=tuple(int(n) for n in line["layers"]),
    )


def _states(line: _Line) -> StatesSeen:
    return StatesSeen(
        rank=_rank(line),
        tokens=tuple(int(token) for token in line["tokens"]),
        width=int(line["width"]),
        hidden_size=int(line["hidden_size"]),
        dtype=str(line.get("dtype", "")),
        states=tuple(
            StateDigest(
                mean=float(state["mean"]),
                norm=float(state["norm"]),
                rows=tuple(float(value) for value in state["rows"]),
            )
            for state in line["states"]
        ),
    )


def _heads(line: _Line) -> HeadsSeen:
    return HeadsSeen(rank=_rank(line), embedding=str(line["embedding"]), head=str(line["head"]))


def _drafted(line: _Line) -> DraftedSeen:
    return DraftedSeen(
        rank=_rank(line),
        tokens=int(line["tokens"]),
        outside=int(line["outside"]),
        examples=tuple(int(token) for token in line["examples"]),
        allowed=int(line["allowed"]),
    )


def _corners(line: _Line) -> dict[str, Corner]:
    return {
        str(name): tuple(tuple(float(value) for value in row) for row in rows)
        for name, rows in line["parameters"].items()
    }


def _rank(line: _Line) -> int:
    return int(line.get("rank") or 0)


def _error(line: _Line) -> str:
    said = [str(line[key]) for key in ("where", "error", "message") if line.get(key)]
    return f"rank {line.get('rank')}: " + (": ".join(said) or json.dumps(dict(line)))


def _optional(value: Any) -> int | None:
    return None if value is None else int(value)


_EACH_ONCE: Mapping[str, tuple[str, Callable[[_Line], Any]]] = {
    "forward": ("forwards", _forward),
    "capture": ("captures", _capture),
    "states": ("states", _states),
    "heads": ("heads", _heads),
    "error": ("errors", _error),
}
"""Facts of which each is kept once: the field that holds them, and what reads one."""
