"""The EAGLE-3 drafter in plain torch, computed as SGLang 0.5.23 computes it.

Source read: `sglang/srt/models/llama_eagle3.py` (`LlamaForCausalLMEagle3`) and
`kimi_k25_eagle3.py` (`Eagle3DeepseekV2ForCausalLM`). One computation serves training, the oracle
and offline drafting.

Shapes: B texts, T positions, R rows of a step, H draft hidden, Ht target hidden, K aux states, V
vocabulary, Vd draft vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from eagle3_checks.reference.attention import Attention, ChainMemory
from eagle3_checks.reference.latent import LatentAttention
from eagle3_checks.reference.layers import Mlp, RmsNorm

if TYPE_CHECKING:
    from eagle3_checks.reference.drafter_config import DrafterConfig


class DecoderLayer(nn.Module):
    """A decoder layer; the first attends from `[norm(embed), norm(hidden)]`, width 2H."""

    def __init__(self, config: DrafterConfig, *, first: bool = True) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.rms_norm_eps
        attention = Attention if config.latent is None else LatentAttention
        self.self_attn: nn.Module = attention(config, 2 * hidden if first else hidden)
        self.mlp = Mlp(hidden, config.intermediate_size)
        if first:
            self.input_layernorm = RmsNorm(hidden, eps)
        self.hidden_norm = RmsNorm(hidden, eps)
        self.post_attention_layernorm = RmsNorm(hidden, eps)
        self.first = first

    def forward(
        self, embeds: Tensor, hidden: Tensor, turn: tuple[Tensor, Tensor], memory: ChainMemory
    ) -> Tensor:
        """Embeds and hidden [B, R, H] -> hidden [B, R, H]; the residual is the un-normed hidden."""
        x = self.hidden_norm(hidden)
        if self.first:
            x = torch.cat([self.input_layernorm(embeds), x], dim=-1)
        hidden = hidden + self.self_attn(x, turn, memory)
        out: Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return out


class Drafter(nn.Module):
    """fc, decoder layers, norm, head: the names of the modules are the checkpoint's keys.

    The embedding is not saved: SGLang puts the target's there, unless its width is another.
    """

    embed_tokens: Tensor
    d2t: Tensor

    def __init__(self, config: DrafterConfig, embed_tokens: Tensor, kept: Tensor) -> None:
        """`embed_tokens` [V, H]; `kept` [Vd]: the target ids of the draft vocabulary."""
        super().__init__()
        self.config = config
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.fc = nn.Linear(config.fused_width, hidden, bias=config.fc_bias)
        if config.norm_before_fc:
            self.input_norm = RmsNorm(config.fused_width, eps)
        if config.fc_norm:
            norms = (RmsNorm(config.target_width, eps) for _ in range(config.num_aux_hidden_states))
            self.fc_norm = nn.ModuleList(norms)
        self.midlayer = DecoderLayer(config)
        self.layers = nn.ModuleDict(
            {str(n): DecoderLayer(config, first=False) for n in range(1, config.num_hidden_layers)}
        )
        self.norm = RmsNorm(hidden, eps)
        self.lm_head = nn.Linear(hidden, config.head_rows, bias=False)
        self.register_buffer("embed_tokens", embed_tokens.detach().clone(), persistent=False)
        self.register_buffer("d2t", kept - torch.arange(len(kept), device=kept.device))

    @property
    def kept(self) -> Tensor:
        """Target id of each draft id, [Vd]: `arange + d2t`."""
        return self.d2t + torch.arange(len(self.d2t), device=self.d2t.device)

    def fuse(self, aux: Tensor) -> Tensor:
        """Concatenated aux states [B, T, K*Ht] -> the first hidden [B, T, H].

        SGLang decides by the width alone: what is as wide as the embedding goes past `fc` and its
        norms.
        """
        config = self.config
        if aux.shape[-1] == config.hidden_size:
            return aux
        if config.norm_before_fc:
            aux = self.input_norm(aux)
        if config.fc_norm:
            parts = aux.chunk(config.num_aux_hidden_states, dim=-1)
            pairs = zip(self.fc_norm, parts, strict=True)
            aux = torch.cat([norm(part) for norm, part in pairs], dim=-1)
        fused: Tensor = self.fc(aux)
        return fused

    def begin(self, at: Tensor | None = None) -> list[ChainMemory]:
        """Return an empty memory for a set of chains: one entry a decoder layer.

        `at` [R]: of each row of the steps after the first, the position of its root.
        """
        return [ChainMemory(at) for _ in range(self.config.num_hidden_layers)]

    def step(
        self, tokens: Tensor, hidden: Tensor, depth: int, memory: list[ChainMemory]
    ) -> tuple[Tensor, Tensor]:
        """Draft one token of the chain at every row.

        `tokens` [B, R]: at depth 0 the token after each position, later the token drafted before.
        `hidden` [B, R, H]: the fused states, later the hidden returned before. Returns logits
        [B, R, Vd] and the hidden for the next step.
        """
        normed, hidden = self.advance(tokens, hidden, depth, memory)
        return self.lm_head(normed), hidden

    def advance(
        self, tokens: Tensor, hidden: Tensor, depth: int, memory: list[ChainMemory]
    ) -> tuple[Tensor, Tensor]:
        """Go one step; return what the head reads and what the next step reads, [B, R, H] each.

        The latter is taken before the final norm, or after it where the config says so.
        """
        at = memory[0].at if depth else None
        if at is None:
            at = torch.arange(tokens.shape[1], device=tokens.device)
        turn = self.config.rope.turn(at + depth)
        embeds = functional.embedding(tokens, self.embed_tokens)
        for layer, kept in zip((self.midlayer, *self.layers.values()), memory, strict=True):
            hidden = layer(embeds, hidden, turn, kept)
        normed = self.norm(hidden)
        return normed, normed if self.config.norm_output else hidden
