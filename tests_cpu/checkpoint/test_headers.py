from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3_checks.checkpoint.header import BITS, Header, read_header
from eagle3_checks.facts import FileFault

FUZZ = settings(max_examples=200, deadline=None)


@pytest.fixture(scope="session")
def read(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], Header]:
    path = tmp_path_factory.mktemp("headers") / "model.safetensors"

    def from_bytes(data: bytes) -> Header:
        path.write_bytes(data)
        return read_header(path, path.name)

    return from_bytes


def file_of(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(begin: int, end: int, dtype: str = "U8", shape: list[int] | None = None) -> Any:
    shape = [end - begin] if shape is None else shape
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def faults(header: Header) -> list[FileFault]:
    return [p.fault for p in header.problems]


def accepted_by_safetensors(data: bytes) -> bool:
    deserialize: Callable[[bytes], Any] = safetensors.deserialize
    try:
        deserialize(data)
    except safetensors.SafetensorError:
        return False
    return True


def test_describes_tensors_with_absolute_offsets(read: Callable[[bytes], Header]) -> None:
    data = file_of({"a": entry(0, 4), "b": entry(4, 12, "BF16", [2, 2])}, bytes(12))
    header = read(data)
    assert header.problems == ()
    assert header.tensors["b"].shape == (2, 2)
    assert header.tensors["b"].end == len(data)


@pytest.mark.parametrize(
    ("data", "fault", "says"),
    [
        (b"", FileFault.TRUNCATED, "0 bytes long"),
        (b"\x05\0\0", FileFault.TRUNCATED, "3 bytes long"),
        (struct.pack("<Q", 200) + b"{}", FileFault.TRUNCATED, "claims 200 bytes, but only 2"),
        (struct.pack("<Q", 1 << 60), FileFault.BAD_HEADER, "more than the 100000000"),
        (file_of(b"{"), FileFault.NOT_JSON, "not valid JSON"),
        (file_of(b"\xff\xfe"), FileFault.NOT_JSON, "not UTF-8"),
        (file_of(b"[" * 100_000), FileFault.NOT_JSON, "nested too deeply"),
        (file_of(b'{"a":NaN}'), FileFault.NOT_JSON, "NaN is not JSON"),
        (file_of(b'{"a":' + b"9" * 5000 + b"}"), FileFault.NOT_JSON, "not usable JSON"),
        (file_of(b'{"\\ud800":1}'), FileFault.NOT_JSON, "half of a surrogate pair"),
        (file_of(b'{"a":"\\uDFFF"}'), FileFault.NOT_JSON, "half of a surrogate pair"),
        (file_of([]), FileFault.BAD_HEADER, "is a list, not an object"),
        (file_of({"a": 1}), FileFault.BAD_HEADER, "its entry is a number"),
        (file_of({"a": entry(0, 1, "X9")}, b"1"), FileFault.BAD_HEADER, "dtype 'X9' is unknown"),
        (file_of({"a": entry(0, 1, "U8", [-1])}, b"1"), FileFault.BAD_HEADER, "shape is [-1]"),
        (file_of({"a": entry(0, 4, "F32", [2])}, bytes(4)), FileFault.BAD_HEADER, "of F32 is 8"),
        (file_of({"a": entry(0, 1, "F4", [1])}, b"1"), FileFault.BAD_HEADER, "of F4 is 0.5"),
        (file_of({"a": entry(0, 8)}, bytes(4)), FileFault.TRUNCATED, "4 missing"),
        (file_of({"a": entry(0, 4)}, bytes(8)), FileFault.BAD_HEADER, "last 4 bytes belong"),
        (file_of({"a": entry(4, 8)}, bytes(8)), FileFault.BAD_HEADER, "belong to no tensor"),
        (
            file_of({"a": entry(0, 8), "b": entry(4, 12)}, bytes(12)),
            FileFault.BAD_HEADER,
            "inside tensor a",
        ),
        (file_of({"__metadata__": {"a": 1}}), FileFault.BAD_HEADER, "texts to texts"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 99\n",
            FileFault.UNREADABLE,
            "Git LFS pointer",
        ),
    ],
)
def test_faults_are_told(
    read: Callable[[bytes], Header], data: bytes, fault: FileFault, says: str
) -> None:
    header = read(data)
    assert fault in faults(header)
    assert any(says in p.detail for p in header.problems)


def test_a_key_that_stands_twice_is_found(read: Callable[[bytes], Header]) -> None:
    one = json.dumps(entry(0, 1)).encode()
    header = read(file_of(b'{"a":' + one + b',"a":' + one + b"}", b"1"))
    assert faults(header) == [FileFault.DUPLICATE]


def test_control_characters_of_names_are_not_printed(read: Callable[[bytes], Header]) -> None:
    header = read(file_of({"\x1b[2Jevil": 1}))
    assert "\x1b" not in header.problems[0].detail


def test_a_whole_surrogate_pair_is_text(read: Callable[[bytes], Header]) -> None:
    whole = file_of(b'{"\\ud83d\\ude00":' + json.dumps(entry(0, 1)).encode() + b"}", b"1")
    assert list(read(whole).tensors) == ["\N{GRINNING FACE}"]


def test_a_shape_beyond_64_bits_takes_no_time(read: Callable[[bytes], Header]) -> None:
    huge = {"a": {**entry(0, 1), "shape": [(1 << 63) - 1] * 200_000}}
    assert "more elements than a file can" in read(file_of(huge, b"1")).problems[0].detail


def test_many_faults_are_cut_short(read: Callable[[bytes], Header]) -> None:
    assert len(read(file_of({str(i): 1 for i in range(500)})).problems) == 20


def test_padding_and_empty_tensors_are_healthy(read: Callable[[bytes], Header]) -> None:
    header = read(file_of(json.dumps({"a": entry(0, 0)}).encode() + b"   "))
    assert header.problems == ()


NAMES = st.sampled_from(["a", "b", "fc.weight", "__metadata__", "ü"])
NUMBERS = st.one_of(st.integers(-1, 9), st.sampled_from([1 << 40, 1 << 64, True, 1.0, None]))
ENTRIES = st.one_of(
    st.fixed_dictionaries(
        {
            "dtype": st.sampled_from([*BITS, "F33", None]),
            "shape": st.lists(NUMBERS, max_size=2),
            "data_offsets": st.lists(NUMBERS, min_size=1, max_size=3),
        }
    ),
    st.builds(entry, st.integers(0, 4), st.integers(4, 8)),
)


@FUZZ
@given(header=st.dictionaries(NAMES, ENTRIES, max_size=3), data=st.binary(max_size=12))
def test_agrees_with_safetensors(
    read: Callable[[bytes], Header], header: dict[str, Any], data: bytes
) -> None:
    whole = file_of(header, data)
    assert (not read(whole).problems) == accepted_by_safetensors(whole)


@FUZZ
@given(data=st.data())
def test_damaged_bytes_never_raise_and_never_pass(
    read: Callable[[bytes], Header],
    tensor_file: Callable[..., bytes],
    healthy_tensors: Callable[..., dict[str, Any]],
    data: st.DataObject,
) -> None:
    whole = bytearray(tensor_file(healthy_tensors()))
    end = 8 + int.from_bytes(whole[:8], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, end - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    damaged = bytes(whole[:cut] if data.draw(st.booleans()) else whole)
    header = read(damaged)
    if not accepted_by_safetensors(damaged):
        assert header.problems
    for info in header.tensors.values():
        assert info.begin <= info.end


@FUZZ
@given(data=st.binary(max_size=64))
def test_any_bytes_give_a_problem(read: Callable[[bytes], Header], data: bytes) -> None:
    assert (not read(data).problems) == accepted_by_safetensors(data)


def test_a_pipe_is_refused_unopened(tmp_path: Path) -> None:
    import os  # noqa: PLC0415 - only where there are pipes

    pipe = tmp_path / "model.safetensors"
    os.mkfifo(pipe)
    assert faults(read_header(pipe, pipe.name)) == [FileFault.UNREADABLE]
