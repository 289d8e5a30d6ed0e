"""Offline chain drafting: what a greedy server would accept, computed without a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from eagle3_checks.reference.generation import generate
from eagle3_checks.reference.target import read_target

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from eagle3_checks.reference.drafter import Drafter


@dataclass(frozen=True, slots=True)
class ChainAcceptance:
    """Counts of verify steps by the number of correct drafts, as SGLang's histogram has them."""

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
    target: LlamaForCausalLM, drafter: Drafter, prompts: Tensor, new_tokens: int, steps: int = 3
) -> tuple[ChainAcceptance, Tensor]:
    """Serve prompts [B, T] of one length greedily.

    Returns the acceptance and the new tokens [B, new_tokens], the first of them from prefill. As
    verification is greedy, the text is the target's own and every chain can be drafted at once; the
    walk over the text then keeps those that a server would have started.
    """
    text = generate(target, prompts, new_tokens + steps)
    aux, _ = read_target(target, text)
    drafts = draft_chains(drafter, aux, text, steps)
    histogram = [0] * (steps + 1)
    start = prompts.shape[1]
    for row in range(len(text)):
        known = start + 1
        while known < start + new_tokens:
            drafted = drafts[row, known - 2]
            right = drafted == text[row, known : known + steps]
            correct = int(right.long().cumprod(0).sum())
            histogram[correct] += 1
            known += correct + 1
    return ChainAcceptance(tuple(histogram)), text[:, start : start + new_tokens]
