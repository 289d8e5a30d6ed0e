"""Rows of an embedding or head, told apart while their bytes pass by.

A row is known by a hash of some bytes at its start and in its middle. Rows whose hashes agree, and
those that look blank, are candidates: they are read again and compared whole.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from eagle3_checks.checkpoint.floats import FORMATS, Bytes, Format, census, numpy
from eagle3_checks.facts import TensorInfo

_MARK = 64
"""Bytes at the start and in the middle of a row that its hash is made from."""
_WORD = 8
MAX_ROWS = 4 << 20
"""Rows of an embedding or head; more are no vocabulary's."""
MAX_ROW_BYTES = 16 << 20
TABLES = ("embed_tokens.weight", "lm_head.weight")
"""Ends of the names of tensors with a row for each token."""


@dataclass(frozen=True)
class Hashes:
    """The rows of one piece of a table."""

    rows: Sequence[int]
    """A hash for each row."""
    blank: tuple[int, ...]
    """Rows, counted from the piece's first, whose marks are zero."""


class Table:
    """A tensor with a row for each token."""

    def __init__(self, info: TensorInfo) -> None:
        """Take the tensor's place; nothing is read yet."""
        self.info = info
        self.row_bytes = (info.end - info.begin) // info.shape[0]
        self._form = FORMATS[info.dtype]
        self._middle = self.row_bytes // 2 // _WORD * _WORD

    def hashes(self, data: Bytes) -> Hashes:
        """Look at whole rows; changes nothing, so that several threads may."""
        by = self._plain if numpy() is None else self._vectorised
        return by(data)

    def _plain(self, data: Bytes) -> Hashes:
        marks = [self._mark(data, at) for at in range(0, len(data), self.row_bytes)]
        blank = (i for i, m in enumerate(marks) if census(m, self.info.dtype).zero)
        return Hashes(array("q", map(hash, marks)), tuple(blank))

    def _mark(self, data: Bytes, offset: int) -> bytes:
        middle, end = offset + self._middle, offset + self.row_bytes
        first = data[offset : min(offset + _MARK, middle)]
        return bytes(first + data[middle : min(middle + _MARK, end)])

    def _vectorised(self, data: Bytes) -> Hashes:
        np = numpy()
        table = np.frombuffer(data, np.uint8).reshape(-1, self.row_bytes)
        parts = table[:, : min(_MARK, self._middle)], table[:, self._middle :][:, :_MARK]
        marks = np.zeros((len(table), 2 * _MARK), np.uint8)
        marks[:, : parts[0].shape[1]] = parts[0]
        marks[:, _MARK : _MARK + parts[1].shape[1]] = parts[1]
        words = marks.view("<u8")
        blank = np.flatnonzero(~(words & _magnitude(self._form)).any(axis=1))
        mixed = (words ^ words >> 32) * _keys()
        return Hashes(mixed.sum(axis=1, dtype=np.uint64), tuple(blank.tolist()))

    def finish(
        self, pieces: Sequence[Hashes], read: Callable[[int], bytes]
    ) -> tuple[tuple[int, ...], dict[int, int]]:
        """Return the rows that are zero, and those that repeat an earlier one, by that one.

        `read` gives the bytes of a row.
        """
        zero = tuple(r for r in _blank(pieces) if census(read(r), self.info.dtype).zero)
        left_out = frozenset(zero)
        repeats: dict[int, int] = {}
        row, content = -1, b""
        for first, later in _alike(pieces, left_out):
            if first != row:
                row, content = first, read(first)
            if read(later) == content:
                repeats[later] = first
        return zero, dict(sorted(repeats.items()))


def is_table(info: TensorInfo) -> bool:
    """Whether a tensor has a row for each token, and is no larger than such a one can be."""
    if not info.name.endswith(TABLES) or len(info.shape) != 2:  # noqa: PLR2004 - a matrix
        return False
    return info.shape[0] <= MAX_ROWS and (info.end - info.begin) // info.shape[0] <= MAX_ROW_BYTES


def _blank(pieces: Sequence[Hashes]) -> Iterator[int]:
    first = 0
    for piece in pieces:
        yield from (first + row for row in piece.blank)
        first += len(piece.rows)


def _alike(pieces: Sequence[Hashes], left_out: frozenset[int]) -> list[tuple[int, int]]:
    """Return rows of one hash as (first, later), in order."""
    firsts: dict[int, int] = {}
    pairs = []
    for row, value in _candidates(pieces):
        if row not in left_out:
            first = firsts.setdefault(value, row)
            if first != row:
                pairs.append((first, row))
    return sorted(pairs)


def _candidates(pieces: Sequence[Hashes]) -> Iterator[tuple[int, int]]:
    """Yield rows with their hashes, in order; with numpy those alone that are not by themselves."""
    if numpy() is None:
        yield from enumerate(chain.from_iterable(piece.rows for piece in pieces))
        return
    hashes = numpy().concatenate([piece.rows for piece in pieces])
    order = numpy().argsort(hashes, kind="stable")
    ordered = hashes[order]
    same = numpy().flatnonzero(ordered[1:] == ordered[:-1])
    several = numpy().unique(numpy().concatenate([order[same], order[same + 1]]))
    yield from zip(several.tolist(), hashes[several].tolist(), strict=True)


@cache
def _keys() -> Any:
    """Return an odd factor for each word of a mark."""
    # Multiples of the golden ratio are spread evenly; candidates are compared whole in any case.
    factors = [(2 * i + 1) * 0x9E3779B97F4A7C15 % (1 << 64) for i in range(2 * _MARK // _WORD)]
    return numpy().array(factors, dtype="<u8")


@cache
def _magnitude(form: Format) -> Any:
    """Return a word that masks the signs of the elements in it."""
    word = form.mask.to_bytes(form.width, "little") * (_WORD // form.width)
    return numpy().frombuffer(word, "<u8")[0]
