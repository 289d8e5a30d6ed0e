"""Offline chain drafting: what a greedy server would accept, computed without a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from eagle3_checks.reference.generation import generate
from eagle3_checks.reference.target import read_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from transformers import LlamaForCausalLM

    from eagle3_checks.reference.drafter import Drafter


@dataclass(frozen=True, slots=True)
class ChainAcceptance:
    """Verify steps counted by their correct drafts, as SGLang's histogram has them."""

    histogram: tuple[int, ...]

    @property
    def verify_steps(self) -> int:
        """Number of verify steps."""
        return sum(self.histogram)

    @property
    def accept_length(self) -> float:
        """Tokens a verify step, the bonus token included."""
        correct = sum(count * drafts for drafts, count in enumerate(self.histogram))
        return 1 + correct / self.verify_steps

    @property
    def per_position(self) -> tuple[float, ...]:
        """Share of verify steps that accepted the draft at each position."""
        return tuple(
            sum(self.histogram[position + 1 :]) / self.verify_steps
            for position in range(len(self.histogram) - 1)
        )


@torch.no_grad()
def draft_chains(drafter: Drafter, aux: Tensor, tokens: Tensor, steps: int) -> Tensor:
    """Draft greedily from every position of tokens [B, T]; return target ids [B, T - 1, steps].

    Entry [b, t, k] is drafted for position t + 2 + k, knowing the tokens up to t + 1.
    """
    hidden, memory = drafter.fuse(aux[:, :-1]), drafter.begin()
    fed = tokens[:, 1:]
    drafts = []
    for depth in range(steps):
        logits, hidden = drafter.step(fed, hidden, depth, memory)
        fed = drafter.kept[logits.argmax(-1)]
        drafts.append(fed)
    return torch.stack(drafts, dim=-1)


def simulate(
    target: LlamaForCausalLM,
    drafter: Drafter,
    prompts: Sequence[Sequence[int]],
    new_tokens: int,
    steps: int = 3,
) -> tuple[ChainAcceptance, list[Tensor]]:
    """Serve prompts greedily; return the acceptance, and the new tokens [new_tokens] of each.

    The first new token comes from prefill. As verification is greedy, the text is the target's own
    and every chain can be drafted at once; the walk over it keeps those a server would start.
    """
    histogram = [0] * (steps + 1)
    written: dict[int, Tensor] = {}
    for length in sorted({len(prompt) for prompt in prompts}):
        rows = [row for row, prompt in enumerate(prompts) if len(prompt) == length]
        text = generate(target, torch.tensor([prompts[row] for row in rows]), new_tokens + steps)
        aux, _ = read_target(target, text)
        drafts = draft_chains(drafter, aux, text, steps)
        for row, tokens, chains in zip(rows, text, drafts, strict=True):
            for correct in _walk(tokens, chains, range(length + 1, length + new_tokens)):
                histogram[correct] += 1
            written[row] = tokens[length : length + new_tokens]
    return ChainAcceptance(tuple(histogram)), [written[row] for row in range(len(prompts))]


def _walk(tokens: Tensor, chains: Tensor, span: range) -> Iterable[int]:
    """Yield the correct drafts of each verify step while the text [T] grows through the span."""
    known = span.start
    while known < span.stop:
        right = chains[known - 2] == tokens[known : known + chains.shape[1]]
        correct = int(right.long().cumprod(0).sum())
        yield correct
        known += correct + 1
