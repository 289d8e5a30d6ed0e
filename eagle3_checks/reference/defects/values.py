"""Changes of one tensor's values, as float16, without torch or numpy.

Shapes: a matrix is [rows, columns]; columns are split into blocks of one width.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import prod

from eagle3_checks.reference.tensorfile import RawTensor

Values = Callable[[RawTensor], RawTensor]
HALF = 2
NAN = float("nan")


def half(values: Iterable[float], *shape: int) -> RawTensor:
    """Return a tensor of float16."""
    held = list(values)
    return RawTensor("F16", shape, struct.pack(f"<{len(held)}e", *held))


def floats(tensor: RawTensor) -> list[float]:
    """Return the values of a float16 tensor."""
    return list(struct.unpack(f"<{len(tensor.data) // HALF}e", tensor.data))


def integers(values: Sequence[int]) -> RawTensor:
    """Return a tensor of int64."""
    return RawTensor("I64", (len(values),), struct.pack(f"<{len(values)}q", *values))


def whole(tensor: RawTensor) -> list[int]:
    """Return the values of an int64 tensor."""
    return list(struct.unpack(f"<{len(tensor.data) // 8}q", tensor.data))


def rows(tensor: RawTensor) -> list[bytes]:
    """Return the bytes of each row."""
    width = len(tensor.data) // tensor.shape[0]
    return [tensor.data[begin : begin + width] for begin in range(0, len(tensor.data), width)]


def from_rows(tensor: RawTensor, chosen: Sequence[bytes]) -> RawTensor:
    """Return a tensor of the same kind from other rows."""
    return RawTensor(tensor.dtype, (len(chosen), *tensor.shape[1:]), b"".join(chosen))


def reordered_rows(order: Callable[[int], Sequence[int]]) -> Values:
    """Row i of the result is row `order(count)[i]`."""

    def change(tensor: RawTensor) -> RawTensor:
        held = rows(tensor)
        return from_rows(tensor, [held[place] for place in order(len(held))])

    return change


def reordered_blocks(*order: int) -> Values:
    """Split the columns into as many blocks as there are places; block i becomes `order[i]`.

    A place of -1 gives zeros.
    """

    def change(tensor: RawTensor) -> RawTensor:
        width = len(tensor.data) // tensor.shape[0] // len(order)

        def block(row: bytes, place: int) -> bytes:
            return bytes(width) if place < 0 else row[place * width : (place + 1) * width]

        return from_rows(tensor, [b"".join(block(r, p) for p in order) for r in rows(tensor)])

    return change


def first_block(tensor: RawTensor) -> RawTensor:
    """Keep as many columns as there are rows: [H, K*H] -> [H, H]."""
    count, width = tensor.shape[0], len(tensor.data) // tensor.shape[0]
    kept = width // tensor.shape[1] * count
    data = b"".join(row[:kept] for row in rows(tensor))
    return RawTensor(tensor.dtype, (count, count), data)


def zero(tensor: RawTensor) -> RawTensor:
    """All zero."""
    return RawTensor(tensor.dtype, tensor.shape, bytes(len(tensor.data)))


def filled(value: float) -> Values:
    """All the same."""
    return lambda tensor: half([value] * prod(tensor.shape), *tensor.shape)


def spoilt(value: float) -> Values:
    """One element replaced."""
    return lambda tensor: half([value, *floats(tensor)[1:]], *tensor.shape)


def redrawn(scale: float, seed: int = 0) -> Values:
    """Values drawn anew, normally distributed around zero with this deviation."""

    def change(tensor: RawTensor) -> RawTensor:
        source = random.Random(seed)  # noqa: S311 - no secret
        return half((source.gauss(0, scale) for _ in range(prod(tensor.shape))), *tensor.shape)

    return change


def noisy(share: float, seed: int = 0) -> Values:
    """Values with noise of `share` x their root mean square added."""

    def change(tensor: RawTensor) -> RawTensor:
        held = floats(tensor)
        scale = share * (sum(v * v for v in held) / len(held)) ** 0.5
        source = random.Random(seed)  # noqa: S311 - no secret
        return half((v + source.gauss(0, scale) for v in held), *tensor.shape)

    return change


def interleaved(head: int) -> Values:
    """Order the rows of every head as RoPE over neighbouring pairs wants them, from halves."""
    inside = list(chain.from_iterable((i, i + head // 2) for i in range(head // 2)))

    def order(count: int) -> Sequence[int]:
        return [begin + place for begin in range(0, count, head) for place in inside]

    return reordered_rows(order)
