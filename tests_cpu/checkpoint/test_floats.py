from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.checkpoint import floats
from eagle3_checks.checkpoint.floats import FORMATS, count_non_finite, decode

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
    assert count_non_finite(data, dtype) == 3
    assert [v for v in decode(data, dtype) if math.isfinite(v)] == pytest.approx(
        [v for v in values if math.isfinite(v)]
    )


def test_the_largest_bfloat16_is_finite(engine: str) -> None:
    data = b"\x7f\x7f\xff\xff\x7f\xff\x80\x7f\x01\x00"
    assert count_non_finite(data, "BF16") == 2
    assert decode(bfloat16(1.5) + bfloat16(-0.25), "BF16")[:2].tolist() == [1.5, -0.25]  # type: ignore[attr-defined]


def test_eight_bits(engine: str) -> None:
    every = bytes(range(256))
    assert count_non_finite(every, "F8_E4M3") == 2
    assert count_non_finite(every, "F8_E5M2") == 8
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
    expected = sum(not math.isfinite(v) for v in values)
    assert floats._plain(whole, form) == expected
    if floats.numpy():
        assert floats._vectorised(whole, form) == expected
