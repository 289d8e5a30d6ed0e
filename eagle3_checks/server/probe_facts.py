"""The probe's files as wiring facts; the probe (``inside/probe``) describes their format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eagle3_checks.facts import CaptureSeen, ForwardSeen, LoadedTensor, LoadSeen, Wiring

_Line = Mapping[str, Any]


def read_wiring(prefix: Path) -> Wiring:
    """Read ``PREFIX.PID.jsonl`` of all the server's processes.

    The server may be writing: a half-written last line is passed over. So are facts of an unknown
    kind; a broken line elsewhere is reported among the errors.
    """
    sglang: str | None = None
    loads: dict[tuple[int, str, int], LoadSeen] = {}
    shared: dict[tuple[int, str, int], tuple[str, ...]] = {}
    forwards: dict[ForwardSeen, None] = {}
    captures: dict[CaptureSeen, None] = {}
    errors: dict[str, None] = {}
    for file in sorted(prefix.parent.glob(f"{prefix.name}.*.jsonl")):
        for line in _lines(file, errors):
            try:
                match line.get("fact"):
                    case "hello":
                        sglang = line.get("sglang") or sglang
                    case "load":
                        loads[_process(line)] = _load(line)
                    case "shared":
                        shared[_process(line)] = tuple(line["parameters"])
                    case "forward":
                        forwards[_forward(line)] = None
                    case "capture":
                        captures[_capture(line)] = None
                    case "error":
                        errors[_error(line)] = None
            except (KeyError, TypeError, ValueError) as error:
                what = f"{type(error).__name__}: {error}"
                errors[f"{file.name}: a {line.get('fact')!r} line is incomplete ({what})"] = None
    return Wiring(
        sglang=sglang,
        loads=tuple(_with_shared(load, shared.get(key, ())) for key, load in loads.items()),
        forwards=tuple(forwards),
        captures=tuple(captures),
        errors=tuple(errors),
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
    return int(line.get("rank") or 0), str(line["class"]), int(line.get("pid") or 0)


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
        rank=int(line.get("rank") or 0),
        tensors=tensors,
        unwritten=tuple(map(str, line["unwritten"])),
    )


def _with_shared(load: LoadSeen, shared: tuple[str, ...]) -> LoadSeen:
    return LoadSeen(
        model_class=load.model_class,
        rank=load.rank,
        tensors=load.tensors,
        unwritten=load.unwritten,
        shared=shared,
    )


def _forward(line: _Line) -> ForwardSeen:
    return ForwardSeen(
        rank=int(line.get("rank") or 0),
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
        rank=int(line.get("rank") or 0),
        target_class=str(line["class"]),
        layers=tuple(int(n) for n in line["layers"]),
    )


def _error(line: _Line) -> str:
    said = [str(line[key]) for key in ("where", "error", "message") if line.get(key)]
    return f"rank {line.get('rank')}: " + (": ".join(said) or json.dumps(dict(line)))


def _optional(value: Any) -> int | None:
    return None if value is None else int(value)
