"""Values of small tensors, without torch or numpy."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eagle3_checks.checkpoint.files import (
    CheckpointError,
    fail,
    plain_name,
    problem,
    read_range,
    shown,
)
from eagle3_checks.facts import FileFault, FileProblem, Manifest, TensorInfo

MAX_MAP_BYTES = 16 << 20
"""Two million ids of eight bytes: an order more than any vocabulary."""

_TYPECODES: Mapping[str, str] = {
    "I64": "q",
    "I32": "i",
    "I16": "h",
    "I8": "b",
    "U64": "Q",
    "U32": "I",
    "U16": "H",
    "U8": "B",
    "BOOL": "B",
}


@dataclass(frozen=True, kw_only=True)
class VocabMap:
    """The vocabulary mapping that a drafter ships."""

    d2t: tuple[int, ...] | None = None
    """Offsets: draft id i stands for target id ``i + d2t[i]``. None where the file has none."""
    kept: tuple[int, ...] | None = None
    """Target ids where t2d is true, ascending. None where the file has no t2d."""
    t2d_length: int | None = None
    problems: tuple[FileProblem, ...] = ()


def read_tensor_bytes(root: Path, tensor: TensorInfo, limit: int) -> bytes:
    """Return the bytes of one tensor below the folder `root`.

    CheckpointError where it is longer than `limit` bytes or cannot be read.
    """
    count = tensor.end - tensor.begin
    if not plain_name(tensor.file):
        fail(FileFault.UNREADABLE, tensor.file, "its name leads out of the checkpoint's folder")
    if count < 0 or count > limit:
        fail(
            FileFault.UNREADABLE,
            tensor.file,
            f"tensor {shown(tensor.name)} takes {count} bytes; at most {limit} are read",
            "check the tensor's shape and type",
        )
    return read_range(root / tensor.file, tensor.file, tensor.begin, count)


def read_integers(root: Path, tensor: TensorInfo, limit: int = MAX_MAP_BYTES) -> tuple[int, ...]:
    """Return the elements of an integer or boolean tensor, flattened; raises CheckpointError."""
    code = _TYPECODES.get(tensor.dtype)
    if code is None:
        fail(
            FileFault.UNREADABLE,
            tensor.file,
            f"tensor {shown(tensor.name)} is {tensor.dtype}; it must hold whole numbers (I64)",
            f"write {shown(tensor.name)} as int64: a file cast to a float type as a whole has "
            "rounded it, so take the values from before the cast",
        )
    values = array(code)
    values.frombytes(read_tensor_bytes(root, tensor, limit))
    if sys.byteorder == "big":
        values.byteswap()
    return tuple(values)


def read_d2t(root: Path, manifest: Manifest) -> tuple[int, ...] | None:
    """Return d2t, or None where the checkpoint has none; raises CheckpointError."""
    tensor = find_map(manifest, "d2t")
    return read_integers(root, tensor) if tensor else None


def read_vocab_map(root: Path, manifest: Manifest) -> VocabMap:
    """Read d2t and t2d; faults are in `problems`, and nothing is raised."""
    problems: list[FileProblem] = []
    values: dict[str, tuple[int, ...] | None] = {}
    for name in ("d2t", "t2d"):
        tensor = find_map(manifest, name)
        values[name] = None
        try:
            if tensor and len(tensor.shape) != 1:
                problems.append(_not_flat(tensor))
            elif tensor:
                values[name] = read_integers(root, tensor)
        except CheckpointError as error:
            problems.append(error.problem)
    t2d = values["t2d"]
    return VocabMap(
        d2t=values["d2t"],
        kept=None if t2d is None else tuple(i for i, flag in enumerate(t2d) if flag),
        t2d_length=None if t2d is None else len(t2d),
        problems=tuple(problems),
    )


def find_map(manifest: Manifest, name: str) -> TensorInfo | None:
    """Return the tensor that SGLang takes for d2t or t2d: the last one whose name contains it."""
    found = [info for key, info in manifest.tensors.items() if name in key]
    return found[-1] if found else None


def _not_flat(tensor: TensorInfo) -> FileProblem:
    return problem(
        FileFault.UNREADABLE,
        tensor.file,
        f"tensor {shown(tensor.name)} is {list(tensor.shape)}; it must have one dimension",
        f"write {shown(tensor.name)} as a flat list",
    )
