"""Words that messages share."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from eagle3_checks.checkpoint.files import shown
from eagle3_checks.facts import Interval, Shape


def shape(value: Shape) -> str:
    """Return a shape as in ``[7168, 21504]``."""
    return str(list(value))


def listed(names: Collection[str], limit: int = 4) -> str:
    """Return names as in ``a, b and 3 more``, safe to print."""
    first = [shown(name) for name in list(names)[:limit]]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, as in ``1 tensor`` or ``3 tensors``."""
    return f"{grouped(number)} {noun}" + ("" if number == 1 else "s")


def grouped(number: int) -> str:
    """Return a whole number with thin groups, as in ``19 876``."""
    return f"{number:,}".replace(",", " ")


def interval(value: Interval) -> str:
    """Return an estimate as in ``2.23 [2.11, 2.35] 95 %``."""
    return f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}] {value.level:.0%}".replace(
        "%", " %"
    )


def ids(values: Iterable[int]) -> str:
    """Return ids as in ``2, 30, 58``."""
    return ", ".join(str(value) for value in values)


def sentence(text: str) -> str:
    """Return a hint as a sentence; a field's or tensor's name at its start keeps its spelling."""
    first = text.partition(" ")[0]
    start = text[0] if any(c in first for c in "_.*") else text[0].upper()
    return f"{start}{text[1:]}."
