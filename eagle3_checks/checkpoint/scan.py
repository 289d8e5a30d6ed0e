"""One pass over the values of a checkpoint's tensors, in bounded memory and without torch.

NaN, zeros and repeated rows are looked for in every byte; scales are estimated from elements spread
evenly over a tensor, so that a pass costs little more than reading the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, sqrt
from operator import mul
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from eagle3_checks.checkpoint.files import (
    CheckpointError,
    fail,
    file_size,
    os_problem,
    plain_name,
    shown,
)
from eagle3_checks.checkpoint.floats import FORMATS, count_non_finite, decode
from eagle3_checks.checkpoint.manifest import read_manifest
from eagle3_checks.facts import (
    EmbeddingSeen,
    FileFault,
    FileProblem,
    Manifest,
    TensorInfo,
    TensorStats,
    TensorValues,
)

CHUNK_BYTES = 1 << 20
BLOCKS, BLOCK = 64, 1024
"""Elements looked at for a tensor's scale: so many blocks of so many."""
SAMPLED_ROWS = 256
MAX_ROWS = 4 << 20
"""Rows of an embedding or head; more are no vocabulary's."""
MAX_ROW_BYTES = 16 << 20
TABLES = ("embed_tokens.weight", "lm_head.weight")
"""Ends of the names of tensors with a row for each token."""
_MARK = 64
"""Bytes at the start and in the middle of a row that rows are told apart by."""
_ROUNDING = 2.0**-7
"""Relative difference that a cast to bfloat16 makes."""


def scan(root: Path, manifest: Manifest, target: Path | None = None) -> TensorValues:
    """Read every tensor of the folder `root` once; never raises.

    With the target's folder, the drafter's embedding is compared with the target's.
    """
    tensors: dict[str, TensorStats] = {}
    skipped: dict[str, str] = {}
    problems: list[FileProblem] = []
    for file in manifest.files:
        held = [t for t in manifest.tensors.values() if t.file == file]
        try:
            for info, seen in _file(root, file, held):
                if isinstance(seen, str):
                    skipped[info.name] = seen
                else:
                    tensors[info.name] = seen
        except CheckpointError as error:
            problems.append(error.problem)
        except OSError as error:
            problems.append(os_problem(error, file))
    return TensorValues(
        tensors=MappingProxyType(tensors),
        skipped=MappingProxyType(skipped),
        embedding=_embedding(root, manifest, target) if target else None,
        problems=tuple(problems),
    )


def _file(
    root: Path, file: str, held: list[TensorInfo]
) -> Iterator[tuple[TensorInfo, TensorStats | str]]:
    if not plain_name(file):
        fail(FileFault.UNREADABLE, file, "its name leads out of the checkpoint's folder")
    file_size(root / file, file)  # a pipe or a device is refused before it is opened
    with (root / file).open("rb", buffering=0) as stream:
        for info in sorted(held, key=lambda t: t.begin):
            if info.dtype not in FORMATS:
                yield info, f"{info.dtype} is no floating-point type that can be judged"
            elif not all(info.shape):
                yield info, "it is empty"
            else:
                yield info, _tensor(stream, info)


def _tensor(stream: BinaryIO, info: TensorInfo) -> TensorStats:
    table = _Table(info) if _is_table(info) else None
    non_finite, all_zero = 0, True
    zeros = bytes(CHUNK_BYTES)
    for at, data in _chunks(stream, info, table.row_bytes if table else 8):
        non_finite += count_non_finite(data, info.dtype)
        if all_zero:
            all_zero = data == (zeros[: len(data)] if len(data) <= len(zeros) else bytes(len(data)))
        if table:
            table.take(at, data)
    sample = [v for part in _sample(stream, info) for v in part]
    if non_finite:
        sample = [v for v in sample if isfinite(v)]
    return TensorStats(
        name=info.name,
        dtype=info.dtype,
        shape=info.shape,
        non_finite=non_finite,
        all_zero=all_zero,
        rms=_rms(sample),
        mean=sum(sample) / len(sample) if sample else 0.0,
        low=min(sample, default=0.0),
        high=max(sample, default=0.0),
        sampled=len(sample),
        zero_rows=tuple(table.zero_rows) if table else (),
        repeats=MappingProxyType(table.repeats) if table else MappingProxyType({}),
        row_rms=MappingProxyType(dict(_row_rms(stream, info)) if table else {}),
    )


def _is_table(info: TensorInfo) -> bool:
    if not info.name.endswith(TABLES) or len(info.shape) != 2:  # noqa: PLR2004 - a matrix
        return False
    return info.shape[0] <= MAX_ROWS and (info.end - info.begin) // info.shape[0] <= MAX_ROW_BYTES


class _Table:
    """What is gathered of a tensor with a row for each token, while its bytes pass by."""

    def __init__(self, info: TensorInfo) -> None:
        self.row_bytes = (info.end - info.begin) // info.shape[0]
        self.zero_rows: list[int] = []
        self.repeats: dict[int, int] = {}
        self._marks: dict[bytes, int] = {}
        self._middle = self.row_bytes // 2 // 8 * 8
        self._blank = bytes(self.row_bytes)
        self._blank_mark = self._mark(self._blank, 0)

    def _mark(self, data: bytes | bytearray, offset: int) -> bytes:
        middle, end = offset + self._middle, offset + self.row_bytes
        first = data[offset : min(offset + _MARK, middle)]
        return bytes(first + data[middle : min(middle + _MARK, end)])

    def take(self, at: int, data: bytes | bytearray) -> None:
        """Look at whole rows, which begin `at` bytes into the tensor."""
        size = self.row_bytes
        for row, offset in enumerate(range(0, len(data), size), at // size):
            mark = self._mark(data, offset)
            if mark == self._blank_mark and data[offset : offset + size] == self._blank:
                self.zero_rows.append(row)
                continue
            first = self._marks.setdefault(mark, row)
            if first != row:
                self.repeats[row] = first


def _chunks(
    stream: BinaryIO, info: TensorInfo, unit: int
) -> Iterator[tuple[int, bytes | bytearray]]:
    """Yield a tensor's bytes with their offset, in pieces of whole units."""
    size = max(1, CHUNK_BYTES // unit) * unit
    buffer = bytearray(size)
    view = memoryview(buffer)
    stream.seek(info.begin)
    total = info.end - info.begin
    for at in range(0, total, size):
        count = min(size, total - at)
        _fill(stream, view[:count], info)
        yield at, buffer if count == size else bytes(view[:count])


def _fill(stream: BinaryIO, view: memoryview, info: TensorInfo) -> None:
    got = 0
    while got < len(view):
        count = stream.readinto(view[got:])  # type: ignore[attr-defined]
        if not count:
            fail(FileFault.TRUNCATED, info.file, f"it ends within tensor {shown(info.name)}")
        got += count


def _sample(stream: BinaryIO, info: TensorInfo) -> Iterator[Sequence[float]]:
    """Yield blocks of elements spread evenly over a tensor; all of a small one."""
    width = FORMATS[info.dtype].width
    elements = (info.end - info.begin) // width
    if elements <= BLOCKS * BLOCK:
        yield decode(_at(stream, info, 0, elements * width), info.dtype)
        return
    for block in range(BLOCKS):
        begin = (elements - BLOCK) * block // (BLOCKS - 1)
        yield decode(_at(stream, info, begin * width, BLOCK * width), info.dtype)


def _row_rms(stream: BinaryIO, info: TensorInfo) -> Iterator[tuple[int, float]]:
    """Yield some rows, spread evenly, with their root mean square, which may be NaN."""
    width = FORMATS[info.dtype].width
    for row in spread(info.shape[0], SAMPLED_ROWS):
        begin = row * info.shape[1] * width
        values = decode(_at(stream, info, begin, min(info.shape[1], BLOCK) * width), info.dtype)
        yield row, _rms(values)


def _at(stream: BinaryIO, info: TensorInfo, begin: int, count: int) -> bytes:
    data = bytearray(count)
    stream.seek(info.begin + begin)
    _fill(stream, memoryview(data), info)
    return bytes(data)


def spread(count: int, wanted: int) -> tuple[int, ...]:
    """Return up to `wanted` indices below `count`, spread evenly, the first and the last in."""
    if count <= wanted:
        return tuple(range(count))
    return tuple((count - 1) * i // (wanted - 1) for i in range(wanted))


def _rms(values: Sequence[float]) -> float:
    return sqrt(sum(map(mul, values, values)) / len(values)) if values else 0.0


def _embedding(root: Path, manifest: Manifest, target: Path) -> EmbeddingSeen | None:
    """Compare some rows of the drafter's embedding with the target's, where both are at hand."""
    theirs = read_manifest(target)
    mine, other = _embedding_of(manifest.tensors), _embedding_of(theirs.tensors)
    if mine is None or other is None or mine.shape[1] != other.shape[1]:
        return None
    rows = equal = 0
    largest = 0.0
    try:
        file_size(root / mine.file, mine.file)
        file_size(target / other.file, other.file)
        with (
            (root / mine.file).open("rb", buffering=0) as one,
            (target / other.file).open("rb", buffering=0) as two,
        ):
            for row in spread(min(mine.shape[0], other.shape[0]), BLOCKS):
                pairs = tuple(zip(_row(one, mine, row), _row(two, other, row), strict=True))
                rows += 1
                equal += all(_alike(a, b) for a, b in pairs)
                largest = max(largest, *(abs(a - b) for a, b in pairs))
    except (CheckpointError, OSError):
        return None
    return EmbeddingSeen(
        name=mine.name, target_name=other.name, rows=rows, equal=equal, largest=largest
    )


def _embedding_of(tensors: Mapping[str, TensorInfo]) -> TensorInfo | None:
    """Return the token embedding, or None where there is none that can be read."""
    found = [t for name, t in tensors.items() if name.endswith(TABLES[0])]
    good = [t for t in found if t.dtype in FORMATS and len(t.shape) == 2 and all(t.shape)]  # noqa: PLR2004
    return good[0] if len(good) == 1 and plain_name(good[0].file) else None


def _row(stream: BinaryIO, info: TensorInfo, row: int) -> Sequence[float]:
    size = info.shape[1] * FORMATS[info.dtype].width
    return decode(_at(stream, info, row * size, size), info.dtype)


def _alike(one: float, two: float) -> bool:
    return one == two or abs(one - two) <= _ROUNDING * max(abs(one), abs(two))
