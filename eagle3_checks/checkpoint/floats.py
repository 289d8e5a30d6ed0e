"""Floating-point elements as bytes: which are NaN or infinite, and what the others are worth.

numpy makes all of it several times quicker where it is installed; nothing needs it.
"""

from __future__ import annotations

import importlib
import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf, isfinite, sqrt
from operator import mul
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Format:
    """A floating-point type of safetensors."""

    width: int
    """Bytes an element takes."""
    limit: int
    """Smallest pattern, its sign left out, that is NaN or infinite."""

    @property
    def mask(self) -> int:
        """All bits but the sign."""
        return (1 << (8 * self.width - 1)) - 1


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "F64": Format(8, 0x7FF0 << 48),
        "F32": Format(4, 0x7F80 << 16),
        "F16": Format(2, 0x7C00),
        "BF16": Format(2, 0x7F80),
        "F8_E5M2": Format(1, 0x7C),
        "F8_E4M3": Format(1, 0x7F),
    }
)


Bytes = bytes | bytearray
_SIGN = b"\x80"
_ZEROS = b"\0" + _SIGN
"""The bytes that zeros of either sign are made of."""


@cache
def numpy() -> Any:
    """Return the module numpy, or None where it is not installed."""
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


@dataclass(frozen=True)
class Census:
    """What every element of some bytes was looked at for."""

    non_finite: int
    """Elements that are NaN or infinite."""
    zero: bool
    """Whether all elements are zero, of either sign."""


def census(data: Bytes, dtype: str) -> Census:
    """Look at all elements of whole elements of a type in `FORMATS`."""
    form = FORMATS[dtype]
    return _plain(data, form) if numpy() is None else _vectorised(data, form)


def _vectorised(data: Bytes, form: Format) -> Census:
    patterns = numpy().frombuffer(data, f"<u{form.width}")
    if not patterns.size:
        return Census(0, zero=True)
    # Taken as unsigned, the largest pattern is negative; as signed, positive. Both passes are much
    # quicker than one that masks the sign, and hardly any weight needs that one.
    largest, positive = int(patterns.max()), int(patterns.view(f"<i{form.width}").max())
    if largest <= form.mask + form.limit and positive < form.limit:
        return Census(0, zero=positive <= 0 and largest <= form.mask + 1)
    return Census(int(((patterns & form.mask) >= form.limit).sum()), zero=False)


def _plain(data: Bytes, form: Format) -> Census:
    return Census(_count(data, form), zero=_is_zero(data, form))


def _count(data: Bytes, form: Format) -> int:
    """Count by whole columns of bytes; the two highest bytes of an element decide."""
    tops = data[form.width - 1 :: form.width].translate(_at_least(form.limit >> 8 * form.width - 8))
    if form.width == 1 or 1 not in tops:
        return tops.count(1)
    least = form.limit >> 8 * form.width - 16 & 0xFF
    if not least:
        return tops.count(1)
    below = data[form.width - 2 :: form.width].translate(_second(least))
    return (int.from_bytes(tops, "little") & int.from_bytes(below, "little")).bit_count()


def _is_zero(data: Bytes, form: Format) -> bool:
    start = 64 * form.width
    if data[:start].translate(None, _ZEROS) or data.translate(None, _ZEROS):
        return False
    signs = data[form.width - 1 :: form.width].count(_SIGN)
    return data.count(_SIGN) == signs


@cache
def _at_least(top: int) -> bytes:
    return bytes((byte & 0x7F) >= top for byte in range(256))


@cache
def _second(least: int) -> bytes:
    return bytes(byte >= least for byte in range(256))


def decode(data: Bytes, dtype: str) -> Sequence[float]:
    """Return the values of whole elements of a type in `FORMATS`."""
    if dtype in ("F64", "F32", "BF16"):
        values = array("d" if dtype == "F64" else "f")
        values.frombytes(_widened(data) if dtype == "BF16" else bytes(data))
        if sys.byteorder == "big":
            values.byteswap()
        return values
    if dtype == "F16":
        return struct.unpack(f"<{len(data) // 2}e", data)
    return [_eighths(dtype)[byte] for byte in data]


@dataclass(frozen=True)
class Moments:
    """Sums over the finite elements of a sample."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    low: float = inf
    high: float = -inf

    @property
    def rms(self) -> float:
        """Root of the mean square; 0 of nothing."""
        return sqrt(self.squares / self.count) if self.count else 0.0


def moments(data: Bytes, dtype: str) -> Moments:
    """Return the sums of the finite elements among whole elements of a type in `FORMATS`."""
    values = decode(data, dtype)
    if numpy() is None:
        finite = [v for v in values if isfinite(v)]
        if not finite:
            return Moments()
        squares = sum(map(mul, finite, finite))
        return Moments(len(finite), sum(finite), squares, min(finite), max(finite))
    with numpy().errstate(all="ignore"):  # NaN and infinity, as Python's numbers have them
        many = numpy().array(values, dtype="f8")
        many = many[numpy().isfinite(many)]
        if not many.size:
            return Moments()
        sums = many.sum(), (many * many).sum(), many.min(), many.max()
    return Moments(many.size, *map(float, sums))


def _widened(data: Bytes) -> bytearray:
    """Return bfloat16 as float32, whose upper half it is."""
    wide = bytearray(2 * len(data))
    wide[2::4], wide[3::4] = data[0::2], data[1::2]
    return wide


@cache
def _eighths(dtype: str) -> tuple[float, ...]:
    """Return the value of each byte of an eight-bit type."""
    bits, bias = (3, 7) if dtype == "F8_E4M3" else (2, 15)
    return tuple(_eighth(byte, bits, bias, FORMATS[dtype].limit) for byte in range(256))


def _eighth(byte: int, bits: int, bias: int, limit: int) -> float:
    pattern, sign = byte & 0x7F, -1.0 if byte & 0x80 else 1.0
    if pattern >= limit:
        return float("nan")
    exponent, fraction = pattern >> bits, (pattern & (1 << bits) - 1) / (1 << bits)
    if not exponent:
        return sign * fraction * 2.0 ** (1 - bias)
    return sign * (1 + fraction) * 2.0 ** (exponent - bias)
