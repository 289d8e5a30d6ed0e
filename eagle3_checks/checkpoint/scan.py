"""One pass over the values of a checkpoint's tensors, in bounded memory and without torch.

NaN, zeros and repeated rows are looked for in every byte; scales are estimated from elements spread
evenly over a tensor, so that a pass costs little more than reading the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
from eagle3_checks.checkpoint.floats import (
    FORMATS,
    Bytes,
    Census,
    Moments,
    census,
    decode,
    moments,
    numpy,
)
from eagle3_checks.checkpoint.manifest import read_manifest
from eagle3_checks.checkpoint.table import TABLES, Hashes, Table, is_table
from eagle3_checks.facts import (
    EmbeddingSeen,
    FileFault,
    FileProblem,
    Manifest,
    TensorInfo,
    TensorStats,
    TensorValues,
)

PIECE_BYTES = 1 << 20
THREADS = 2
"""As many as keep both a disk and a core busy."""
BLOCKS, BLOCK = 64, 1024
"""Elements looked at for a tensor's scale: so many blocks of so many."""
SAMPLED_ROWS = 256
ROW_ELEMENTS = 4096
"""Elements of a row that its scale is taken from."""
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
    table = Table(info) if is_table(info) else None
    pieces = _pieces(stream, info, table)
    sample = _sample(stream, info)
    zero_rows: tuple[int, ...] = ()
    repeats: dict[int, int] = {}
    if table:
        size = table.row_bytes
        hashes = tuple(piece.hashes for piece in pieces if piece.hashes)
        zero_rows, repeats = table.finish(hashes, lambda row: _at(stream, info, row * size, size))
    return TensorStats(
        name=info.name,
        dtype=info.dtype,
        shape=info.shape,
        non_finite=sum(piece.census.non_finite for piece in pieces),
        all_zero=all(piece.census.zero for piece in pieces),
        rms=sample.rms,
        mean=sample.total / sample.count if sample.count else 0.0,
        low=sample.low if sample.count else 0.0,
        high=sample.high if sample.count else 0.0,
        sampled=sample.count,
        zero_rows=zero_rows,
        repeats=MappingProxyType(repeats),
        row_rms=MappingProxyType(dict(_row_rms(stream, info)) if table else {}),
        row_elements=min(info.shape[1], ROW_ELEMENTS) if table else 0,
    )


@dataclass(frozen=True)
class _Piece:
    """What a piece of a tensor was seen to hold."""

    census: Census
    hashes: Hashes | None


def _pieces(stream: BinaryIO, info: TensorInfo, table: Table | None) -> Sequence[_Piece]:
    """Look at all bytes of a tensor, in pieces of whole rows, in the order of the file.

    numpy and the operating system let other threads run, so that one piece is read while another
    is looked at.
    """
    unit = table.row_bytes if table else FORMATS["F64"].width
    size = max(1, PIECE_BYTES // unit) * unit
    total = info.end - info.begin
    starts = range(0, total, size)

    def look(starts: Sequence[int]) -> list[_Piece]:
        buffer = bytearray(min(size, total))
        pieces = []
        for at in starts:
            count = min(size, total - at)
            data: Bytes = buffer if count == len(buffer) else bytearray(count)
            _fill(stream, memoryview(data), info, at)
            hashes = table.hashes(data) if table else None
            pieces.append(_Piece(census(data, info.dtype), hashes))
        return pieces

    if len(starts) <= THREADS or numpy() is None:
        return look(starts)
    with ThreadPoolExecutor(THREADS) as pool:
        shares = list(pool.map(look, (starts[n::THREADS] for n in range(THREADS))))
    return [shares[n % THREADS][n // THREADS] for n in range(len(starts))]


def _fill(stream: BinaryIO, view: memoryview, info: TensorInfo, at: int) -> None:
    """Read from a tensor's byte `at` on until the view is full; moves no position."""
    got = 0
    while got < len(view):
        count = os.preadv(stream.fileno(), [view[got:]], info.begin + at + got)
        if not count:
            fail(FileFault.TRUNCATED, info.file, f"it ends within tensor {shown(info.name)}")
        got += count


def _sample(stream: BinaryIO, info: TensorInfo) -> Moments:
    """Look at blocks of elements spread evenly over a tensor; at all of a small one."""
    width = FORMATS[info.dtype].width
    elements = (info.end - info.begin) // width
    if elements <= BLOCKS * BLOCK:
        return moments(_at(stream, info, 0, elements * width), info.dtype)
    starts = ((elements - BLOCK) * block // (BLOCKS - 1) for block in range(BLOCKS))
    blocks = (_at(stream, info, begin * width, BLOCK * width) for begin in starts)
    return moments(b"".join(blocks), info.dtype)


def _row_rms(stream: BinaryIO, info: TensorInfo) -> Iterator[tuple[int, float]]:
    """Yield some rows, spread evenly, with the root mean square of their finite elements."""
    width = FORMATS[info.dtype].width
    for row in spread(info.shape[0], SAMPLED_ROWS):
        begin = row * info.shape[1] * width
        data = _at(stream, info, begin, min(info.shape[1], ROW_ELEMENTS) * width)
        yield row, moments(data, info.dtype).rms


def _at(stream: BinaryIO, info: TensorInfo, begin: int, count: int) -> bytes:
    data = bytearray(count)
    _fill(stream, memoryview(data), info, begin)
    return bytes(data)


def spread(count: int, wanted: int) -> tuple[int, ...]:
    """Return up to `wanted` indices below `count`, spread evenly, the first and the last in."""
    if count <= wanted:
        return tuple(range(count))
    return tuple((count - 1) * i // (wanted - 1) for i in range(wanted))


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
