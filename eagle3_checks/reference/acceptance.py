"""What a greedy server would accept of the tiny pair's chains, computed without a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from eagle3_checks.profile import Speculation
from eagle3_checks.reference.generation import generate
from eagle3_checks.reference.replay import Text, verify
from eagle3_checks.reference.target import read_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor
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


def simulate(
    target: LlamaForCausalLM,
    drafter: Drafter,
    prompts: Sequence[Sequence[int]],
    new_tokens: int,
    steps: int = 3,
) -> tuple[ChainAcceptance, list[Tensor]]:
    """Serve prompts greedily; return the acceptance, and the new tokens [new_tokens] of each.

    The first new token comes from prefill.
    """
    histogram = [0] * (steps + 1)
    written: dict[int, Tensor] = {}
    chain = Speculation(steps=steps, draft_tokens=steps + 1)
    for length in sorted({len(prompt) for prompt in prompts}):
        rows = [row for row, prompt in enumerate(prompts) if len(prompt) == length]
        text = generate(target, torch.tensor([prompts[row] for row in rows]), new_tokens + steps)
        aux, _ = read_target(target, text)
        for row, tokens, states in zip(rows, text, aux, strict=True):
            served = Text(
                prompt_id=str(row), prompt_set="", tokens=tokens, prompt_tokens=length, aux=states
            )
            for step in verify(drafter, served, chain, new_tokens)[1]:
                histogram[step.correct] += 1
            written[row] = tokens[length : length + new_tokens]
    return ChainAcceptance(tuple(histogram)), [written[row] for row in range(len(prompts))]
