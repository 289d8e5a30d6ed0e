"""Rotary position embedding, in the layout where the two halves of a head are the pairs (NeoX)."""

from __future__ import annotations

import torch
from torch import Tensor


def rotary(positions: Tensor, width: int, theta: float) -> tuple[Tensor, Tensor]:
    """Positions [T] -> cosines and sines [T, width], the halves repeated."""
    exponents = torch.arange(0, width, 2, dtype=torch.float32) / width
    angles = positions[:, None].float() * theta**-exponents
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Turn [B, heads, T, width] by the cosines and sines [T, width] of its positions."""
    cos, sin = turn
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin
