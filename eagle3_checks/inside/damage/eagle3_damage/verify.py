"""Damages to the step in which the target accepts drafts."""

from __future__ import annotations

import itertools
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY = 5
"""Verify steps from one wrong draft to the next."""
SPAN, ZEROES = 24, 12
"""Of so many tokens of an answer, the last ones become token 0."""
NOISE = 4.0


@dataclass(frozen=True)
class Step:
    """One request's part of a verify step."""

    request: Any
    """SGLang's Req."""
    logits: torch.Tensor
    """Of the target, [draft tokens, vocabulary], to be changed in place; row 0 decides about the
    first draft."""
    drafted: torch.Tensor
    """The tree's tokens, its root first."""
    number: int
    """Steps of the process so far."""
    alone: bool


def around_sampling(name: str) -> Callable[..., Any]:
    """Return a hook around ``eagle_sample`` that changes the target's logits first."""
    count = itertools.count(1)
    change = _CHANGES[name]

    def hook(original: Callable[..., Any], *args: Any, **named: Any) -> Any:
        verify_input, batch, logits_output = args[:3]
        if not batch.forward_mode.is_idle():
            requests = len(batch.reqs)
            rows = logits_output.next_token_logits.view(requests, verify_input.draft_token_num, -1)
            trees = verify_input.draft_token.view(requests, -1)
            for request, logits, drafted in zip(batch.reqs, rows, trees, strict=True):
                change(Step(request, logits, drafted, next(count), requests == 1))
        return original(*args, **named)

    return hook


def _accept_wrong_draft(step: Step) -> None:
    if step.number % EVERY == 0:
        _choose(step.logits[0], int(step.drafted[1]))


def _write_zeroes(step: Step) -> None:
    if len(step.request.output_ids) % SPAN >= SPAN - ZEROES:
        for row in step.logits:
            _choose(row, 0)


def _add_noise(step: Step) -> None:
    noise = torch.Generator().manual_seed(secrets.randbits(32))
    step.logits.add_(NOISE * torch.randn(step.logits.shape, generator=noise).to(step.logits))


def _change_in_company(step: Step) -> None:
    if not step.alone:
        _take_second(step.logits[0])


def _change_after_cache(step: Step) -> None:
    if step.request.cached_tokens:
        _take_second(step.logits[0])


def _die_on_grammar(step: Step) -> None:
    if step.request.grammar is not None:
        raise RuntimeError("damaged on purpose: a constrained request")


def _choose(row: torch.Tensor, token: int) -> None:
    row[token] = row.max() + 1


def _take_second(row: torch.Tensor) -> None:
    row[row.argmax()] = row.min() - 1


_CHANGES: dict[str, Callable[[Step], None]] = {
    "accepts-wrong-drafts": _accept_wrong_draft,
    "token-zero": _write_zeroes,
    "not-deterministic": _add_noise,
    "batch-dependent": _change_in_company,
    "cache-dependent": _change_after_cache,
    "dies-on-grammar": _die_on_grammar,
}
