"""Attention of drafted chains over the text before them and over themselves.

Positions of a text are the roots of chains of their own, and all chains go one step at a time. Step
0 reads the target's states: an ordinary causal pass. A later step reads what the chain itself has
made; of the text it sees the roots, because a server, once it has verified, fills the drafter's
cache from the target's states again.

Shapes: B texts, T positions, R rows of a step, nh and nkv heads, d head_dim.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from eagle3_checks.reference.rotary import rotate

if TYPE_CHECKING:
    from eagle3_checks.reference.drafter_config import DrafterConfig


@dataclass(slots=True)
class ChainMemory:
    """Keys and values of one layer, [B, nkv, T or R, d] each, that later steps look back on.

    A tree's branches are rows of their own. SGLang gives each a row of cache slots and never moves
    what is in them, although the branches of one step may all descend from one branch of the step
    before: a row sees what it wrote itself, whoever its ancestors are. So it is here.
    """

    at: Tensor | None = None
    """Of each row of later steps, the position of its root [R]; row t has root t where None."""
    roots: tuple[Tensor, Tensor] | None = None
    """Of step 0: a chain rooted at position t sees those up to t."""
    steps: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    """Of the later steps: a row sees its own alone."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        """Queries [B, nh, R, d] -> mixed values [B, nh, R, dv]; adds this step's keys and values.

        R is T in step 0.
        """
        group = q.shape[1] // k.shape[1]
        if self.roots is None:
            self.roots = k, v
            return functional.scaled_dot_product_attention(
                q, _spread(k, group), _spread(v, group), is_causal=True, scale=scale
            )
        self.steps.append((k, v))
        keys, values = (_spread(part, group) for part in self.roots)
        length = keys.shape[2]
        positions = torch.arange(length, device=q.device)
        at = positions if self.at is None else self.at
        later = positions > at[:, None]
        over_roots = (q @ keys.transpose(2, 3) * scale).masked_fill(later, float("-inf"))
        over_steps = [(q * _spread(k, group)).sum(-1, keepdim=True) * scale for k, _ in self.steps]
        weights = torch.cat([over_roots, *over_steps], dim=-1).softmax(-1)
        out = weights[..., :length] @ values
        for index, (_, made) in enumerate(self.steps, start=length):
            out = out + weights[..., index, None] * _spread(made, group)
        return out


class Attention(nn.Module):
    """Grouped-query attention with RoPE; the projections to q, k and v have no biases."""

    def __init__(self, config: DrafterConfig, input_size: int) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.kv_heads = config.num_key_value_heads
        self.head_dim = config.head_dim
        self.scale = self.head_dim**-0.5
        self.q_proj = nn.Linear(input_size, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(input_size, self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(input_size, self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(
            self.heads * self.head_dim, config.hidden_size, bias=config.output_bias
        )

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], memory: ChainMemory) -> Tensor:
        """[B, R, input] -> [B, R, H]; adds this step's keys and values to `memory`."""
        q = rotate(split_heads(self.q_proj(x), self.heads), turn)
        k = rotate(split_heads(self.k_proj(x), self.kv_heads), turn)
        v = split_heads(self.v_proj(x), self.kv_heads)
        out = memory.attend(q, k, v, self.scale)
        mixed: Tensor = self.o_proj(out.transpose(1, 2).flatten(2))
        return mixed


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, R, heads * d] -> [B, heads, R, d]."""
    return x.view(*x.shape[:-1], heads, -1).transpose(1, 2)


def _spread(x: Tensor, group: int) -> Tensor:
    return x.repeat_interleave(group, dim=1)
