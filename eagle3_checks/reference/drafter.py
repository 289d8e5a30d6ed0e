"""The Llama-style EAGLE-3 drafter in plain torch, computed as SGLang 0.5.23 computes it.

Source read: `sglang/srt/models/llama_eagle3.py` (`LlamaForCausalLMEagle3`). One computation serves
training, the oracle and offline drafting.

Shapes: B texts, T positions, H draft hidden, Ht target hidden, K aux states, V vocabulary, Vd draft
vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from eagle3_checks.reference.attention import Attention, ChainMemory
from eagle3_checks.reference.rotary import rotary

if TYPE_CHECKING:
    from eagle3_checks.reference.drafter_config import DrafterConfig


class RmsNorm(nn.Module):
    """`x / rms(x) * weight` over the last dimension."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] -> [..., size]."""
        return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., H] -> [..., H]."""
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class InputLayer(nn.Module):
    """The first decoder layer: attends from `[norm(embed), norm(hidden)]`, width 2H."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.self_attn = Attention(config, 2 * hidden)
        self.mlp = Mlp(hidden, config.intermediate_size)
        self.input_layernorm = RmsNorm(hidden, eps)
        self.hidden_norm = RmsNorm(hidden, eps)
        self.post_attention_layernorm = RmsNorm(hidden, eps)

    def forward(
        self, embeds: Tensor, hidden: Tensor, turn: tuple[Tensor, Tensor], memory: ChainMemory
    ) -> Tensor:
        """Embeds and hidden [B, T, H] -> hidden [B, T, H]; the residual is the un-normed hidden."""
        both = torch.cat([self.input_layernorm(embeds), self.hidden_norm(hidden)], dim=-1)
        hidden = hidden + self.self_attn(both, turn, memory)
        out: Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return out


class Drafter(nn.Module):
    """fc, one decoder layer, norm, head: the names of the modules are the checkpoint's keys.

    The embedding is the target's, frozen and not saved: SGLang puts the target's there anyway.
    """

    embed_tokens: Tensor
    d2t: Tensor

    def __init__(self, config: DrafterConfig, embed_tokens: Tensor, kept: Tensor) -> None:
        """`embed_tokens` [V, H]; `kept` [Vd]: the target ids of the draft vocabulary."""
        super().__init__()
        self.config = config
        self.fc = nn.Linear(config.fused_width, config.hidden_size, bias=False)
        self.midlayer = InputLayer(config)
        self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)
        self.register_buffer("embed_tokens", embed_tokens.detach().clone(), persistent=False)
        self.register_buffer("d2t", kept - torch.arange(len(kept)))

    @property
    def kept(self) -> Tensor:
        """Target id of each draft id, [Vd]: `arange + d2t`."""
        return self.d2t + torch.arange(len(self.d2t), device=self.d2t.device)

    def fuse(self, aux: Tensor) -> Tensor:
        """Concatenated aux states [B, T, K*Ht] -> the first hidden [B, T, H].

        SGLang decides by the width alone: what is as wide as the embedding goes past `fc`.
        """
        if aux.shape[-1] == self.config.hidden_size:
            return aux
        fused: Tensor = self.fc(aux)
        return fused

    def begin(self) -> list[ChainMemory]:
        """Return an empty memory for a set of chains: one entry a decoder layer."""
        return [ChainMemory()]

    def step(
        self, tokens: Tensor, hidden: Tensor, depth: int, memory: list[ChainMemory]
    ) -> tuple[Tensor, Tensor]:
        """Draft one token of the chain at every position.

        `tokens` [B, T]: at depth 0 the token after each position, later the token drafted before.
        `hidden` [B, T, H]: the fused states, later the hidden returned before. Returns logits
        [B, T, Vd] and the hidden for the next step, taken before the final norm.
        """
        positions = torch.arange(tokens.shape[1], device=tokens.device) + depth
        turn = rotary(positions, self.config.head_dim, self.config.rope_theta)
        embeds = functional.embedding(tokens, self.embed_tokens)
        hidden = self.midlayer(embeds, hidden, turn, memory[0])
        return self.lm_head(self.norm(hidden)), hidden
