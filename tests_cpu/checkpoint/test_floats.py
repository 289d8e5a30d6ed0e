from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.checkpoint import floats
from eagle3_checks.checkpoint.floats import FORMATS, Census, census, decode, moments

SPECIAL = {
    "F64": ("<d", [1.5, math.inf, -math.inf, math.nan, 0.0, -1e300]),
    "F32": ("<f", [1.5, math.inf, -math.inf, math.nan, 0.0, -3e38]),
    "F16": ("<e", [1.5, math.inf, -math.inf, math.nan, 0.0, -65504.0]),
}


def bfloat16(value: float) -> bytes:
    return struct.pack("<f", value)[2:]


@pytest.fixture(params=["numpy", "plain"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr(floats, "numpy", lambda: None)
    else:
        pytest.importorskip("numpy")
    return str(request.param)


@pytest.mark.parametrize("dtype", list(SPECIAL))
def test_nan_and_infinity_are_counted(engine: str, dtype: str) -> None:
    code, values = SPECIAL[dtype]
    data = b"".join(struct.pack(code, v) for v in values)
    assert census(data, dtype).non_finite == 3
    assert [v for v in decode(data, dtype) if math.isfinite(v)] == pytest.approx(
        [v for v in values if math.isfinite(v)]
    )


def test_the_largest_bfloat16_is_finite(engine: str) -> None:
    data = b"\x7f\x7f\xff\xff\x7f\xff\x80\x7f\x01\x00"
    assert census(data, "BF16").non_finite == 2
    assert decode(bfloat16(1.5) + bfloat16(-0.25), "BF16")[:2].tolist() == [1.5, -0.25]  # type: ignore[attr-defined]


def test_eight_bits(engine: str) -> None:
    every = bytes(range(256))
    assert census(every, "F8_E4M3").non_finite == 2
    assert census(every, "F8_E5M2").non_finite == 8
    assert [decode(bytes([b]), "F8_E4M3")[0] for b in (0x38, 0x7E, 0x01, 0xB8)] == [
        1.0,
        448.0,
        2**-9,
        -1.0,
    ]
    assert [decode(bytes([b]), "F8_E5M2")[0] for b in (0x3C, 0x7B)] == [1.0, 57344.0]


@given(dtype=st.sampled_from(sorted(FORMATS)), data=st.binary(max_size=400))
def test_both_engines_count_alike(dtype: str, data: bytes) -> None:
    form = FORMATS[dtype]
    whole = data[: len(data) // form.width * form.width]
    values = decode(whole, dtype)
    assert len(values) == len(whole) // form.width
    expected = Census(sum(not math.isfinite(v) for v in values), zero=not any(values))
    assert floats._plain(whole, form) == expected
    if floats.numpy():
        assert floats._vectorised(whole, form) == expected


@pytest.mark.parametrize("dtype", list(FORMATS))
def test_zeros_of_both_signs_are_zero(engine: str, dtype: str) -> None:
    width = FORMATS[dtype].width
    minus = bytes(width - 1) + b"\x80"
    smallest = b"\x01" + bytes(width - 1)
    assert census(bytes(width) * 99 + minus * 99, dtype) == Census(0, zero=True)
    assert not census(bytes(width) * 99 + smallest, dtype).zero
    if width > 1:
        assert not census(minus + b"\x80" + bytes(width - 1), dtype).zero


@given(dtype=st.sampled_from(sorted(FORMATS)), data=st.binary(max_size=400))
def test_both_engines_sum_alike(dtype: str, data: bytes) -> None:
    whole = data[: len(data) // FORMATS[dtype].width * FORMATS[dtype].width]
    seen = moments(whole, dtype)
    finite = [v for v in decode(whole, dtype) if math.isfinite(v)]
    assert seen.count == len(finite)
    if finite:
        assert (seen.low, seen.high) == (min(finite), max(finite))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floats, "numpy", lambda: None)
        plain = moments(whole, dtype)
    assert seen.rms == pytest.approx(plain.rms)
