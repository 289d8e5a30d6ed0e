"""A d2t that holds floating-point numbers, written as int64 where that is exact."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from pathlib import Path

from eagle3_checks.checkpoint.files import CheckpointError
from eagle3_checks.checkpoint.values import MAX_MAP_BYTES, find_map, read_tensor_bytes
from eagle3_checks.facts import Manifest, TensorInfo
from eagle3_checks.repackage.plan import Change, Refusal

EXACT = {"BF16": 1 << 8, "F16": 1 << 11, "F32": 1 << 24, "F64": 1 << 53}
"""Whole numbers up to this size survive a cast to the type; larger ones were rounded."""
_FORMATS = {"F16": "e", "F32": "f", "F64": "d"}


def whole_d2t(
    root: Path, manifest: Manifest
) -> tuple[tuple[str, tuple[int, ...]] | None, Change | Refusal | None]:
    """Return name and values of a d2t to be written anew, and the change or why there is none."""
    tensor = find_map(manifest, "d2t")
    if tensor is None or tensor.dtype not in EXACT or len(tensor.shape) != 1:
        return None, None
    try:
        values = _numbers(read_tensor_bytes(root, tensor, MAX_MAP_BYTES), tensor)
    except CheckpointError as error:
        return None, _refusal(tensor, error.problem.detail)
    limit = EXACT[tensor.dtype]
    if not all(math.isfinite(v) and v == int(v) for v in values):
        return None, _refusal(tensor, "it holds numbers that are not whole")
    largest = max((abs(int(v)) for v in values), default=0)
    if largest >= limit:
        reason = f"it holds {largest}, and {tensor.dtype} keeps whole numbers below {limit} alone"
        return None, _refusal(tensor, reason)
    change = Change(
        what=f"{tensor.name}: type",
        old=tensor.dtype,
        new="I64",
        why=f"all {len(values)} values are whole and below {limit}, so none was rounded",
    )
    return (tensor.name, tuple(int(v) for v in values)), change


def _numbers(data: bytes, tensor: TensorInfo) -> tuple[float, ...]:
    if tensor.dtype == "BF16":
        words = struct.unpack(f"<{len(data) // 2}H", data)
        # A bfloat16 is the upper half of a float32.
        return struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *_up(words)))
    code = _FORMATS[tensor.dtype]
    return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)


def _up(words: Iterable[int]) -> Iterable[int]:
    return (word << 16 for word in words)


def _refusal(tensor: TensorInfo, why: str) -> Refusal:
    return Refusal(
        what=f"{tensor.name}: type {tensor.dtype}",
        why=why,
        instead="export d2t as int64 from the training run",
    )
