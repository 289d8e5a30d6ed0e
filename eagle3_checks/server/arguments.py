"""Command-line words as flags and their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def without(words: Iterable[str], prefix: str) -> tuple[str, ...]:
    """Return the words without the flags that begin with a prefix, and without their values."""
    kept: list[str] = []
    dropping = False
    for word in words:
        if word.startswith("--"):
            dropping = word.startswith(prefix)
        if not dropping:
            kept.append(word)
    return tuple(kept)


def flags(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield every ``--flag`` with its value, given as ``--flag=value`` or as the next word.

    A flag without a value yields ''.
    """
    listed = tuple(words)
    for here, after in zip(listed, (*listed[1:], "")[: len(listed)], strict=True):
        name, joined, value = here.partition("=")
        if name.startswith("--"):
            yield name, value if joined else "" if after.startswith("--") else after
