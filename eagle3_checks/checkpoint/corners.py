"""The first values of a checkpoint's matrices, to be held against those that are served."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from eagle3_checks.checkpoint.files import CheckpointError, plain_name, read_range
from eagle3_checks.checkpoint.floats import FORMATS, decode
from eagle3_checks.facts import Corner, Manifest, TensorInfo

SIDE = 4
"""Rows and columns that are read."""
PLAIN = frozenset({"F64", "F32", "F16", "BF16"})
"""Types whose stored numbers are the weights."""


def read_corners(root: Path, manifest: Manifest) -> Mapping[str, Corner]:
    """Read the upper left corner of each matrix of plain numbers; absent where it cannot be."""
    corners: dict[str, Corner] = {}
    for info in manifest.tensors.values():
        if len(info.shape) == 2 and info.dtype in PLAIN and plain_name(info.file):  # noqa: PLR2004
            try:
                corners[info.name] = _corner(root, info)
            except CheckpointError:
                continue
    return corners


def _corner(root: Path, info: TensorInfo) -> Corner:
    rows, columns = info.shape
    width = FORMATS[info.dtype].width
    wanted = min(SIDE, columns)
    starts = (info.begin + row * columns * width for row in range(min(SIDE, rows)))
    return tuple(
        tuple(decode(read_range(root / info.file, info.file, at, wanted * width), info.dtype))
        for at in starts
    )
