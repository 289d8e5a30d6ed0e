"""Attention of a drafted chain over the text before it and over itself.

Every position of a text is the root of a chain of its own, and all chains go one step at a time.
Step 0 reads the target's states: an ordinary causal pass. A later step reads what the chain itself
has made; of the text it sees the roots, because a server, once it has verified, fills the drafter's
cache from the target's states again.

Shapes: B texts, T positions, nh and nkv heads, d head_dim.
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
    """Keys and values of one layer, [B, nkv, T, d] each, that later steps look back on."""

    roots: tuple[Tensor, Tensor] | None = None
    """Of step 0: a chain rooted at position t sees those up to t."""
    steps: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    """Of the later steps: a chain sees its own alone."""


class Attention(nn.Module):
    """Grouped-query attention with RoPE, without biases."""

    def __init__(self, config: DrafterConfig, input_size: int) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.kv_heads = config.num_key_value_heads
        self.head_dim = config.head_dim
        self.q_proj = nn.Linear(input_size, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(input_size, self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(input_size, self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, config.hidden_size, bias=False)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], memory: ChainMemory) -> Tensor:
        """[B, T, input] -> [B, T, H]; adds this step's keys and values to `memory`."""
        q = rotate(self._split(self.q_proj(x), self.heads), turn)
        k = rotate(self._split(self.k_proj(x), self.kv_heads), turn)
        v = self._split(self.v_proj(x), self.kv_heads)
        if memory.roots is None:
            memory.roots = k, v
            out = functional.scaled_dot_product_attention(
                q, self._spread(k), self._spread(v), is_causal=True
            )
        else:
            memory.steps.append((k, v))
            out = self._attend(q, memory.roots, memory.steps)
        mixed: Tensor = self.o_proj(out.transpose(1, 2).flatten(2))
        return mixed

    def _attend(
        self, q: Tensor, roots: tuple[Tensor, Tensor], steps: list[tuple[Tensor, Tensor]]
    ) -> Tensor:
        length, scale = q.shape[2], self.head_dim**-0.5
        keys, values = self._spread(roots[0]), self._spread(roots[1])
        later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
        over_roots = (q @ keys.transpose(2, 3) * scale).masked_fill(later, float("-inf"))
        over_steps = [(q * self._spread(k)).sum(-1, keepdim=True) * scale for k, _ in steps]
        weights = torch.cat([over_roots, *over_steps], dim=-1).softmax(-1)
        out = weights[..., :length] @ values
        for index, (_, v) in enumerate(steps, start=length):
            out = out + weights[..., index, None] * self._spread(v)
        return out

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:-1], heads, self.head_dim).transpose(1, 2)

    def _spread(self, x: Tensor) -> Tensor:
        return x.repeat_interleave(self.heads // self.kv_heads, dim=1)
