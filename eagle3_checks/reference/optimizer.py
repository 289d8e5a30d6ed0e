"""Muon for the matrices inside the layers, AdamW for the rest, on one schedule.

Muon takes the tiny target where AdamW takes it in about half the steps. It is in torch from 2.9 on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor, nn

# Tables of the vocabulary are no maps between hidden states; Muon is for those.
_TABLES = ("embed_tokens", "lm_head")
CLIP = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How long and how fast to train: linear warm-up, then a cosine to zero."""

    steps: int
    batch: int
    length: int
    """Tokens of a text that are trained on."""
    seed: int = 23
    muon: float = 1e-2
    adam: float = 3e-3
    warmup: int = 50

    def scale(self, step: int) -> float:
        """Share of the peak learning rates at a step, counted from 0."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        return 0.5 + 0.5 * math.cos(math.pi * (step - self.warmup) / (self.steps - self.warmup))


class Optimizer:
    """The two optimizers of a model, stepped together."""

    def __init__(self, model: nn.Module, schedule: Schedule) -> None:
        self.schedule = schedule
        self.parameters = list(model.parameters())
        named = dict(model.named_parameters())
        matrices = {
            name
            for name, p in named.items()
            if p.dim() == 2 and not any(t in name for t in _TABLES)  # noqa: PLR2004
        }
        muon = torch.optim.Muon(
            [named[name] for name in named if name in matrices],
            lr=schedule.muon,
            weight_decay=0.01,
            adjust_lr_fn="match_rms_adamw",
        )
        adam = torch.optim.AdamW(
            [named[name] for name in named if name not in matrices],
            lr=schedule.adam,
            betas=(0.9, 0.95),
            weight_decay=0.01,
            fused=True,
        )
        self._parts = ((muon, schedule.muon), (adam, schedule.adam))

    def step(self, loss: Tensor, step: int) -> None:
        """Go one step down `loss`."""
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.parameters, CLIP)
        for optimizer, peak in self._parts:
            for group in optimizer.param_groups:
                group["lr"] = peak * self.schedule.scale(step)
            optimizer.step()  # type: ignore[no-untyped-call,unused-ignore]
            optimizer.zero_grad()
