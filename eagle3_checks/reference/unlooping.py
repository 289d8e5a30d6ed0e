"""Sequence-level unlikelihood: teaches a small target out of the loops its greedy text falls into.

Left alone, the greedy text of a model this small is one phrase over and over, which any drafter
gets right. The method is that of Welleck et al., 2019 (arXiv:1908.04319): let the model write, and
lower the probability of each token that completes a sequence of tokens it has written before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from eagle3_checks.reference.generation import generate

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import LlamaForCausalLM


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlooping:
    """How much of it: in the last `steps` steps of the target's training."""

    steps: int
    weight: float = 1.0
    size: int = 6
    """Length of the sequences that must not come twice."""
    batch: int = 16
    ahead: int = 64
    """Texts written at once, by the model as it is then."""
    prompt_tokens: int = 64
    new_tokens: int = 128


class Rollouts:
    """Texts the model writes on prompts from its training text, a batch at a time."""

    def __init__(
        self, model: LlamaForCausalLM, ids: Tensor, settings: Unlooping, seed: int
    ) -> None:
        self.model, self.ids, self.settings = model, ids, settings
        self.generator = torch.Generator().manual_seed(seed + 1)
        self.texts: Tensor | None = None
        self.state = ""

    def take(self) -> tuple[Tensor, Tensor]:
        """Return texts [B, T] and the mask [B, T] of the tokens that repeat a sequence."""
        settings = self.settings
        if self.texts is None or not len(self.texts):
            offsets = torch.arange(settings.prompt_tokens)
            starts = torch.randint(
                len(self.ids) - settings.prompt_tokens,
                (settings.ahead, 1),
                generator=self.generator,
            )
            self.texts = generate(self.model, self.ids[starts + offsets], settings.new_tokens)
            share = distinct_share(self.texts[:, settings.prompt_tokens :])
            self.state = f"distinct share of greedy text {share:.2f}"
        texts, self.texts = self.texts[: settings.batch], self.texts[settings.batch :]
        wrong = repeats(texts, settings.size)
        wrong[:, : settings.prompt_tokens] = False
        return texts, wrong


def distinct_share(text: Tensor) -> float:
    """Mean over the rows of text [B, T] of the share of tokens that are distinct."""
    return sum(len(row.unique()) / len(row) for row in text) / len(text)


def repeats(text: Tensor, size: int) -> Tensor:
    """Mark the tokens of text [B, T] that complete `size` tokens seen before in their row."""
    weights = torch.randint(2**31, (size,), generator=torch.Generator().manual_seed(size))
    hashes = (text.unfold(1, size, 1) * weights).sum(-1)
    same = hashes[:, :, None] == hashes[:, None, :]
    return functional.pad(same.tril(-1).any(-1), (size - 1, 0))


def unlikelihood(model: LlamaForCausalLM, text: Tensor, wrong: Tensor) -> Tensor:
    """Mean of -log(1 - p) over the tokens of text [B, T] marked wrong [B, T]; 0 where none is."""
    wrong = wrong[:, 1:]
    if not wrong.any():
        return torch.zeros(())
    logits = model(input_ids=text[:, :-1], use_cache=False).logits[wrong]
    chosen = logits.log_softmax(-1).gather(-1, text[:, 1:][wrong][:, None])
    return -torch.log1p(-chosen.exp().clamp(max=1 - 1e-5)).mean()
