"""Floating-point elements as bytes: which are NaN or infinite, and what the others are worth.

numpy makes the counting several times faster where it is installed; nothing needs it.
"""

from __future__ import annotations

import importlib
import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
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


@cache
def numpy() -> Any:
    """Return the module numpy, or None where it is not installed."""
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


def count_non_finite(data: bytes | bytearray, dtype: str) -> int:
    """Count the NaN and infinite elements of whole elements of a type in `FORMATS`."""
    form = FORMATS[dtype]
    return _plain(data, form) if numpy() is None else _vectorised(data, form)


def _vectorised(data: bytes | bytearray, form: Format) -> int:
    patterns = numpy().frombuffer(data, f"<u{form.width}")
    if not patterns.size:
        return 0
    # Taken as unsigned, the largest pattern is negative; as signed, positive. Both are rare.
    negative = patterns.max() > form.mask + form.limit
    if not negative and patterns.view(f"<i{form.width}").max() < form.limit:
        return 0
    return int(((patterns & form.mask) >= form.limit).sum())


def _plain(data: bytes | bytearray, form: Format) -> int:
    """Count by whole columns of bytes; the two highest bytes of an element decide."""
    tops = data[form.width - 1 :: form.width].translate(_at_least(form.limit >> 8 * form.width - 8))
    if form.width == 1 or 1 not in tops:
        return tops.count(1)
    least = form.limit >> 8 * form.width - 16 & 0xFF
    if not least:
        return tops.count(1)
    below = data[form.width - 2 :: form.width].translate(_second(least))
    return (int.from_bytes(tops, "little") & int.from_bytes(below, "little")).bit_count()


@cache
def _at_least(top: int) -> bytes:
    return bytes((byte & 0x7F) >= top for byte in range(256))


@cache
def _second(least: int) -> bytes:
    return bytes(byte >= least for byte in range(256))


def decode(data: bytes | bytearray, dtype: str) -> Sequence[float]:
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


def _widened(data: bytes | bytearray) -> bytearray:
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
