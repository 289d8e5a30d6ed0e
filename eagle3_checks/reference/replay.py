"""What a drafter reaches on the target's true aux states: served on paper, without a server.

Verification is greedy, so the text is the target's own whatever is drafted: all trees can be
drafted at once, and a walk over the text keeps those that a server would come to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from eagle3_checks.facts import RequestSample
from eagle3_checks.reference.drafting import Trees, draft_trees

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from eagle3_checks.profile import Speculation
    from eagle3_checks.reference.drafter import Drafter


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A prompt with the target's greedy continuation, which goes on past its end tokens."""

    prompt_id: str
    prompt_set: str
    tokens: Tensor
    """[T]: `prompt_tokens` of the prompt, then the continuation; `steps` more than are counted."""
    prompt_tokens: int
    aux: Tensor
    """[T or T - 1, K*Ht]: the states that the target hands over at each position, concatenated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """One verify step of a replay."""

    known: int
    """Tokens of the text that were verified before, the first new one included."""
    row: int
    """Which of the drafted trees was verified."""
    correct: int
    """Correct drafts: the longest path of the tree that the text takes."""


def verify(
    drafter: Drafter,
    text: Text,
    speculation: Speculation,
    new_tokens: int,
    ends: Collection[int] = (),
) -> tuple[Trees, list[Verified]]:
    """Draft from every position that verification may come to; return the trees and the walk.

    The answer ends after `new_tokens`, or with one of the tokens `ends`. SGLang counts the last
    verify step whole, also where it goes past the end.
    """
    first = text.prompt_tokens + 1
    span = range(first, min(text.prompt_tokens + new_tokens, len(text.tokens)))
    device = drafter.d2t.device
    tokens, aux = text.tokens.to(device), text.aux.to(device, drafter.embed_tokens.dtype)
    roots = torch.arange(span.start - 2, span.stop - 2, device=device)
    trees = draft_trees(drafter, aux, tokens, roots, speculation)
    return trees, list(_walk(trees, text.tokens, span, frozenset(ends)))


def counted(
    text: Text, walk: Sequence[Verified], speculation: Speculation, new_tokens: int
) -> RequestSample:
    """Return the counts that a server would report of a walk."""
    histogram = [0] * speculation.max_accept_length
    for step in walk:
        histogram[step.correct] += 1
    last = walk[-1].known + walk[-1].correct + 1 if walk else text.prompt_tokens + 1
    return RequestSample(
        prompt_id=text.prompt_id,
        prompt_set=text.prompt_set,
        prompt_tokens=text.prompt_tokens,
        completion_tokens=min(last - text.prompt_tokens, new_tokens),
        verify_steps=len(walk),
        correct_drafts=sum(step.correct for step in walk),
        proposed_drafts=len(walk) * (speculation.draft_tokens - 1),
        histogram=tuple(histogram),
    )


def _walk(trees: Trees, tokens: Tensor, span: range, ends: frozenset[int]) -> Iterator[Verified]:
    known = span.start
    if int(tokens[known - 1]) in ends:
        return
    while known < span.stop:
        row = known - span.start
        correct = trees.correct(row, tokens[known:])
        yield Verified(known=known, row=row, correct=correct)
        before, known = known, known + correct + 1
        if ends.intersection(tokens[before:known].tolist()):
            return
