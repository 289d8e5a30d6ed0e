"""The header of one safetensors file: an 8-byte length, then JSON, then the data.

Refuses what safetensors itself refuses (github.com/huggingface/safetensors, ``tensor.rs``): the
data must be covered by the tensors without holes, overlaps or rest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eagle3_checks.checkpoint.files import (
    MAX_JSON_BYTES,
    CheckpointError,
    check_lfs,
    file_size,
    parse_json,
    problem,
    read_range,
    shown,
)
from eagle3_checks.facts import FileFault, FileProblem, Shape, TensorInfo

LENGTH_BYTES = 8
METADATA = "__metadata__"
MAX_PROBLEMS = 20
"""More of them in one file say nothing new."""

BITS: Mapping[str, int] = {
    **dict.fromkeys(("BOOL", "U8", "I8"), 8),
    **dict.fromkeys(("F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
"""Bits an element takes, by the header's name of the type."""
_LARGEST = 1 << 63
_FIRST = 64
"""Bytes that tell a Git LFS pointer; a header is longer."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """What one file's header describes."""

    tensors: Mapping[str, TensorInfo] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[FileProblem, ...] = ()


class _BadEntryError(ValueError):
    """A tensor's entry that cannot be used."""


def read_header(path: Path, file: str) -> Header:
    """Read and check the header of `path`, called `file` in messages; never raises."""
    try:
        size = file_size(path, file)
        start, text = _header_text(path, file, size)
        parsed = parse_json(text, file, strict=True)
    except CheckpointError as error:
        return Header(problems=(error.problem,))
    entries = parsed.value
    if not isinstance(entries, dict):
        return Header(problems=(_bad(file, f"its header is a {_kind(entries)}, not an object"),))
    problems = [
        problem(
            FileFault.DUPLICATE,
            file,
            f"its header holds the key {shown(key)} twice",
            "write the file again with safetensors",
        )
        for key in parsed.duplicates
    ]
    metadata = _metadata(entries.pop(METADATA, None), file, problems)
    tensors: dict[str, TensorInfo] = {}
    for name, entry in entries.items():
        try:
            tensors[name] = _tensor(name, entry, file, start)
        except _BadEntryError as error:
            problems.append(_bad(file, f"tensor {shown(name)}: {error}"))
    problems.extend(_coverage(tensors, file, start, size))
    return Header(tensors=tensors, metadata=metadata, problems=tuple(problems[:MAX_PROBLEMS]))


def _header_text(path: Path, file: str, size: int) -> tuple[int, bytes]:
    """Return where the data begins and the header's JSON."""
    first = read_range(path, file, 0, min(size, _FIRST))
    check_lfs(first, file)
    if size < LENGTH_BYTES:
        raise CheckpointError(
            problem(FileFault.TRUNCATED, file, f"it is {size} bytes long, too short for a header")
        )
    (length,) = struct.unpack("<Q", first[:LENGTH_BYTES])
    if length > MAX_JSON_BYTES:
        raise CheckpointError(
            _bad(
                file,
                f"its header claims {length} bytes, more than the {MAX_JSON_BYTES} that "
                "safetensors allows: it is no safetensors file, or damaged",
            )
        )
    if LENGTH_BYTES + length > size:
        raise CheckpointError(
            problem(
                FileFault.TRUNCATED,
                file,
                f"its header claims {length} bytes, but only {size - LENGTH_BYTES} follow",
            )
        )
    return LENGTH_BYTES + length, read_range(path, file, LENGTH_BYTES, length)


def _elements(shape: Shape) -> int:
    """Multiply as safetensors does, which refuses at the first product beyond 64 bits.

    A shape of a million large numbers would take Python minutes.
    """
    product = 1
    for size in shape:
        product *= size
        if product >= _LARGEST:
            raise _BadEntryError("shape holds more elements than a file can")
    return product


def _metadata(value: Any, file: str, problems: list[FileProblem]) -> Mapping[str, str]:
    if value is None:
        return {}
    if isinstance(value, dict) and all(isinstance(v, str) for v in value.values()):
        return value
    problems.append(_bad(file, f"{METADATA} must map texts to texts"))
    return {}


def _tensor(name: str, entry: Any, file: str, start: int) -> TensorInfo:
    if not isinstance(entry, dict):
        raise _BadEntryError(f"its entry is a {_kind(entry)}, not an object")
    dtype = entry.get("dtype")
    if not isinstance(dtype, str) or dtype not in BITS:
        raise _BadEntryError(f"dtype {shown(repr(dtype))} is unknown; one of {', '.join(BITS)}")
    shape = _counts(entry.get("shape"), "shape")
    offsets = _counts(entry.get("data_offsets"), "data_offsets")
    if len(offsets) != 2:  # noqa: PLR2004 - begin and end
        raise _BadEntryError(f"data_offsets holds {len(offsets)} numbers; begin and end are needed")
    begin, end = offsets
    bits = _elements(shape) * BITS[dtype]
    if bits % 8 or end - begin != bits // 8:
        raise _BadEntryError(
            f"it holds {end - begin} bytes; {shown(str(list(shape)))} of {dtype} is "
            f"{bits / 8 if bits % 8 else bits // 8}"
        )
    return TensorInfo(
        name=name, dtype=dtype, shape=shape, file=file, begin=start + begin, end=start + end
    )


def _counts(value: Any, key: str) -> Shape:
    """Return whole numbers from a list; bool is an int in Python, but no number in JSON."""
    good = isinstance(value, list) and all(type(v) is int and 0 <= v < _LARGEST for v in value)
    if not good:
        raise _BadEntryError(f"{key} is {shown(repr(value))}; it must be a list of whole numbers")
    return tuple(value)


def _coverage(
    tensors: Mapping[str, TensorInfo], file: str, start: int, size: int
) -> Iterator[FileProblem]:
    """Tell holes, overlaps, data past the end of the file and data no tensor describes."""
    reached, before = start, ""
    for info in sorted(tensors.values(), key=lambda t: (t.begin, t.end)):
        if info.begin < reached:
            yield _bad(
                file,
                f"tensor {shown(info.name)} begins at byte {info.begin}, inside tensor "
                f"{shown(before)}, which ends at byte {reached}",
            )
        elif info.begin > reached:
            yield _bad(file, f"bytes {reached} to {info.begin} belong to no tensor")
        reached, before = max(reached, info.end), info.name
    if reached > size:
        yield problem(
            FileFault.TRUNCATED,
            file,
            f"it is {size} bytes long; its header describes {reached} ({reached - size} missing)",
        )
    elif reached < size:
        yield _bad(file, f"the last {size - reached} bytes belong to no tensor")


def _bad(file: str, detail: str) -> FileProblem:
    return problem(FileFault.BAD_HEADER, file, detail)


def _kind(value: Any) -> str:
    names = {dict: "JSON object", list: "list", str: "text", bool: "truth value"}
    return names.get(type(value), "number" if isinstance(value, int | float) else "null")
