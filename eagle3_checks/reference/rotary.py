"""Turning heads by the angles of their positions, in both layouts of pairs."""

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
    """Turn [B, heads, T, width] by the cosines and sines [T, width] of its positions.

    The two halves of a head are the pairs (NeoX).
    """
    cos, sin = turn
    first, second = x.chunk(2, dim=-1)
    return (x * cos + torch.cat([-second, first], dim=-1) * sin).to(x.dtype)


def rotate_neighbours(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Do the same where neighbours are the pairs (GPT-J), as in DeepSeek's latent attention."""
    cos, sin = (part.chunk(2, dim=-1)[0] for part in turn)
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1)
    return turned.flatten(-2).to(x.dtype)
