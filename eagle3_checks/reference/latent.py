"""DeepSeek's multi-head latent attention (MLA), as the drafter of Kimi-K2.x has it.

Source read: `DeepseekV2AttentionMLA` of `sglang/srt/models/deepseek_v2.py` (0.5.23), and
`kimi_k25_eagle3.py`, which doubles its input. SGLang multiplies queries into the latent space and
attends there; here keys and values are spelled out, which is the same sum in another order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from eagle3_checks.reference.attention import split_heads
from eagle3_checks.reference.layers import RmsNorm
from eagle3_checks.reference.rotary import rotate_neighbours

if TYPE_CHECKING:
    from eagle3_checks.reference.attention import ChainMemory
    from eagle3_checks.reference.drafter_config import DrafterConfig


class LatentAttention(nn.Module):
    """Queries, keys and values through low ranks; all heads share the turned part of the keys."""

    def __init__(self, config: DrafterConfig, input_size: int) -> None:
        super().__init__()
        sizes = config.latent
        if sizes is None:
            raise ValueError("the config has no sizes of latent attention")
        self.heads, self.sizes = config.num_attention_heads, sizes
        self.scale = config.rope.softmax_scale(sizes.qk_head_dim)
        eps = config.rms_norm_eps
        self.q_a_proj = nn.Linear(input_size, sizes.q_lora_rank, bias=False)
        self.q_a_layernorm = RmsNorm(sizes.q_lora_rank, eps)
        self.q_b_proj = nn.Linear(sizes.q_lora_rank, self.heads * sizes.qk_head_dim, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(
            input_size, sizes.kv_lora_rank + sizes.qk_rope_head_dim, bias=False
        )
        self.kv_a_layernorm = RmsNorm(sizes.kv_lora_rank, eps)
        self.kv_b_proj = nn.Linear(
            sizes.kv_lora_rank, self.heads * (sizes.qk_nope_head_dim + sizes.v_head_dim), bias=False
        )
        self.o_proj = nn.Linear(self.heads * sizes.v_head_dim, config.hidden_size, bias=False)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], memory: ChainMemory) -> Tensor:
        """[B, R, input] -> [B, R, H]; adds this step's keys and values to `memory`."""
        sizes = self.sizes
        q = split_heads(self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x))), self.heads)
        still, turned = torch.split(q, [sizes.qk_nope_head_dim, sizes.qk_rope_head_dim], dim=-1)
        q = torch.cat([still, rotate_neighbours(turned, turn)], dim=-1)
        latent, shared = torch.split(
            self.kv_a_proj_with_mqa(x), [sizes.kv_lora_rank, sizes.qk_rope_head_dim], dim=-1
        )
        shared = rotate_neighbours(shared[:, None], turn).expand(-1, self.heads, -1, -1)
        both = split_heads(self.kv_b_proj(self.kv_a_layernorm(latent)), self.heads)
        still, v = torch.split(both, [sizes.qk_nope_head_dim, sizes.v_head_dim], dim=-1)
        out = memory.attend(q, torch.cat([still, shared], dim=-1), v, self.scale)
        mixed: Tensor = self.o_proj(out.transpose(1, 2).flatten(2))
        return mixed
