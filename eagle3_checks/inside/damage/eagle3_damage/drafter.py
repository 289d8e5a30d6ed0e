"""Damages to what a drafter is made of."""

from __future__ import annotations

from typing import Any

import torch

OFFSET = 64
"""Positions by which drafting is off: farther than the attention of a tiny drafter forgives."""
SEED = 20


def damage(name: str, model: Any) -> None:
    """Damage a loaded drafter, whose embedding and head are the ones it will serve with."""
    if name == "wrong-embedding":
        _replace(model.model.embed_tokens)
    elif name == "wrong-head":
        _replace(model.lm_head)
    elif name == "position-offset":
        model.model.register_forward_pre_hook(_offset)
    elif name == "zeroed-layer":
        layer = getattr(model.model, "midlayer", None) or model.model.layers
        for parameter in layer.parameters():
            parameter.data.zero_()
    else:
        _add_noise(model)


def _replace(module: Any) -> None:
    """Move the rows by one in a copy: the original may be the target's."""
    moved = module.weight.data.roll(1, dims=0).clone()
    module.weight = torch.nn.Parameter(moved, requires_grad=False)


def _offset(_module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    tokens, positions, batch, *rest = inputs
    if batch.forward_mode.is_decode():
        positions = positions + OFFSET
    return (tokens, positions, batch, *rest)


def _add_noise(model: Any) -> None:
    noise = torch.Generator().manual_seed(SEED)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 and "embed_tokens" not in name:
            drawn = torch.randn(parameter.shape, generator=noise)
            parameter.data += drawn.to(parameter) * parameter.data.std()
