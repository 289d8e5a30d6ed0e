"""Greedy text of the target, in batches and with a cache laid out beforehand.

transformers' own cache grows by concatenation, which at these sizes costs more than the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from eagle3_checks.reference.rotary import rotary, rotate

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


@torch.no_grad()
def generate(model: LlamaForCausalLM, prompts: Tensor, new_tokens: int) -> Tensor:
    """Continue prompts [B, T] of one length greedily; return [B, T + new_tokens].

    Nothing stops at `</s>`.
    """
    batch, length = prompts.shape
    total = length + new_tokens
    decoder = _Decoder(model, batch, total)
    text = torch.empty(batch, total, dtype=torch.long)
    text[:, :length] = prompts
    fed = prompts
    for end in range(length, total):
        text[:, end] = decoder(fed, end - fed.shape[1]).argmax(-1)
        fed = text[:, end : end + 1]
    return text


class _Decoder:
    """The target's own weights, applied to the next tokens of every text at once."""

    def __init__(self, model: LlamaForCausalLM, batch: int, length: int) -> None:
        config = model.config
        self.model, self.config = model, config
        self.heads, self.kv_heads, self.width = (
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        )
        shape = (config.num_hidden_layers, batch, self.kv_heads, length, self.width)
        self.keys, self.values = torch.zeros(shape), torch.zeros(shape)
        theta = getattr(config, "rope_theta", None) or config.rope_parameters["rope_theta"]
        self.cos, self.sin = rotary(torch.arange(length), self.width, theta)

    def __call__(self, ids: Tensor, begin: int) -> Tensor:
        """Ids [B, T] at positions begin.. -> logits [B, V] after the last of them."""
        inner = self.model.model
        hidden = inner.embed_tokens(ids)
        for index, layer in enumerate(inner.layers):
            hidden = hidden + self._attend(
                index, layer.self_attn, layer.input_layernorm(hidden), begin
            )
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return self.model.lm_head(inner.norm(hidden[:, -1]))  # type: ignore[no-any-return]

    def _attend(self, index: int, attention: Any, x: Tensor, begin: int) -> Tensor:
        end = begin + x.shape[1]
        turn = self.cos[begin:end], self.sin[begin:end]
        q = rotate(self._split(attention.q_proj(x), self.heads), turn)
        self.keys[index, :, :, begin:end] = rotate(
            self._split(attention.k_proj(x), self.kv_heads), turn
        )
        self.values[index, :, :, begin:end] = self._split(attention.v_proj(x), self.kv_heads)
        keys, values = self.keys[index, :, :, :end], self.values[index, :, :, :end]
        if begin == 0:
            group = self.heads // self.kv_heads
            out = functional.scaled_dot_product_attention(
                q,
                keys.repeat_interleave(group, 1),
                values.repeat_interleave(group, 1),
                is_causal=True,
            )
        else:
            # One new token: the heads of a group are rows of one product, and no key is repeated.
            grouped = q.reshape(len(x), self.kv_heads, -1, self.width)
            weights = (grouped @ keys.transpose(2, 3) * self.width**-0.5).softmax(-1)
            out = (weights @ values).flatten(1, 2).unsqueeze(2)
        return attention.o_proj(out.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:-1], heads, self.width).transpose(1, 2)
