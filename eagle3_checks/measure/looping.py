"""Text that repeats itself: a target caught in a loop is easy to draft for, and proves little."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from eagle3_checks.facts import Looping, RequestSample

LONGEST_PERIOD = 64
"""Characters of the longest part that is looked for."""
REPEATS = 4
SHORTEST = 96
"""Characters of the shortest loop: a ruled line or an indented block is none."""
HALF = 0.5
_LOOP = re.compile(rf"(.{{1,{LONGEST_PERIOD}}}?)\1{{{REPEATS - 1},}}", re.DOTALL)


def looping_characters(text: str) -> int:
    """Count the characters that lie in loops: one part at least four times, 96 characters in all.

    The part may begin anywhere in itself, and the last one may be cut.
    """
    total = at = 0
    while loop := _LOOP.search(text, at):
        period, end = len(loop[1]), loop.end()
        while end < len(text) and text[end] == text[end - period]:
            end += 1
        if end - loop.start() >= SHORTEST:
            total += end - loop.start()
            at = end
        else:
            at = loop.start() + 1
    return total


def measure_looping(samples: Iterable[RequestSample]) -> Looping:
    """Look for loops in all answers of an acceptance measurement."""
    seen = tuple(samples)
    loops = [looping_characters(s.text) for s in seen]
    mostly = [s for s, n in zip(seen, loops, strict=True) if n > HALF * max(1, len(s.text))]
    others = [s for s in seen if s not in mostly]
    return Looping(
        prompts=len(seen),
        characters=sum(len(s.text) for s in seen),
        looping=sum(loops),
        worst=tuple(s.prompt_id for s in mostly),
        accept_length=_accept_length(others),
        accept_length_all=_accept_length(seen),
    )


def _accept_length(samples: Sequence[RequestSample]) -> float | None:
    steps = sum(s.verify_steps for s in samples)
    return 1 + sum(s.correct_drafts for s in samples) / steps if steps else None
