"""Readings of acceptance: its band, and its shape along a chain."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from eagle3_checks.facts import Group

BANDS = (
    (0.5, "above 0.50 the wiring works: longer training is the cheap gain"),
    (0.3, "between 0.30 and 0.50 more training data pays most"),
    (0.0, "below 0.30 the wiring is to be proven first"),
)
"""Bands of the accept rate that practice works by; from 0.30 on training is looked at first."""
TRAINED = 0.3
REACHED = 0.02
"""Share of verify steps below which a position says nothing of the next."""
BREAK = 0.3
"""Share of a position that the next keeps, below which the chain breaks."""
FIRST = 0.5
"""Share of what later positions keep, below which the first is the bad one."""
FALL = 0.6
"""Share of the correct drafts on the shortest prompts that the longest keep, below which they
fall; and of the best prompt set that the worst keeps."""


def band(rate: float) -> str:
    """Say what practice advises at an accept rate."""
    told = next(told for lowest, told in BANDS if rate >= lowest)
    return f"accept rate {rate:.2f}: {told}"


def kept(shares: Sequence[float]) -> tuple[float, ...]:
    """Return the share of each position that the next one keeps, as far as it is reached."""
    return tuple(after / before for before, after in pairwise(shares) if before >= REACHED)


def first_alone_is_bad(shares: Sequence[float] | None) -> bool:
    """Whether drafts fare well once the first one is right, and it seldom is."""
    later = kept(shares) if shares else ()
    return shares is not None and bool(later) and shares[0] < FIRST * sum(later) / len(later)


def breaks_after_first(shares: Sequence[float] | None) -> bool:
    """Whether first drafts fare well, and those after them do not."""
    later = kept(shares[:2]) if shares else ()
    return shares is not None and bool(later) and shares[0] >= TRAINED and later[0] < BREAK


def falls(groups: Sequence[Group]) -> str:
    """Say that the last group accepts far less than the first, or nothing."""
    told = [(g.name, g.accept_length.value) for g in groups if g.accept_length]
    if len(told) > 1 and told[-1][1] - 1 < FALL * (told[0][1] - 1):
        (short, high), (long, low) = told[0], told[-1]
        return f"accept length {high:.2f} at {short} prompt tokens, {low:.2f} at {long}"
    return ""


def differs(groups: Sequence[Group]) -> str:
    """Say that one prompt set accepts far less than another, or nothing."""
    told = sorted((g.accept_length.value, g.name) for g in groups if g.accept_length)
    if len(told) > 1 and told[0][0] - 1 < FALL * (told[-1][0] - 1):
        (low, worst), (high, best) = told[0], told[-1]
        return f"accept length {low:.2f} on {worst}, {high:.2f} on {best}"
    return ""
