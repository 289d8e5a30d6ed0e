"""Changes of a drafter, each of which would mend one fault: what a diagnosis tries.

A change returns a drafter that shares all it does not change, or None where it does not apply.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from eagle3_checks.reference.attention import Attention
from eagle3_checks.reference.drafter import Drafter
from eagle3_checks.reference.rope import Scaling

USUAL_BASES = (10000.0, 500000.0, 1000000.0)
CLEAR = 0.5
"""Cosine from which on a row of the head is one of the target's head, trained further."""
SAME = 0.9
"""Share of rows that must be where d2t says, for d2t to be right."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known of the target, and of the drafter's file besides the drafter."""

    theta: float | None
    scaling: Scaling | None
    heads: tuple[int, int, int] | None
    """Heads, key-value heads and head_dim."""
    head: Tensor | None
    """Output embedding [V, Ht]."""
    norm: Tensor | None
    """Weights of the target's final norm [Ht]."""
    embedding: Tensor | None
    """The embedding in the drafter's file, where SGLang puts the target's."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A drafter with one thing changed."""

    cause: str
    told: str
    drafter: Drafter


def changes(drafter: Drafter, known: Known) -> Iterator[Change]:
    """Yield every change that applies, each with the cause that it speaks for."""
    for parts in (_rope, _heads, _vocabulary, _embedding, _layout, _norms):
        yield from parts(drafter, known)


def sharing(drafter: Drafter) -> Drafter:
    """Return a copy whose modules are its own and whose tensors are the drafter's."""
    memo: dict[int, Any] = {id(t): t for t in (*drafter.parameters(), *drafter.buffers())}
    return copy.deepcopy(drafter, memo)


def with_weights(drafter: Drafter, **weights: Tensor) -> Drafter:
    """Return a copy with other weights; `__` in a module's name stands for a dot."""
    changed = sharing(drafter)
    for name, weight in weights.items():
        module = changed.get_submodule(name.replace("__", "."))
        module.weight = nn.Parameter(weight, requires_grad=False)
    return changed


def with_config(drafter: Drafter, **settings: Any) -> Drafter:
    """Return a copy with another config."""
    changed = sharing(drafter)
    changed.config = replace(drafter.config, **settings)
    return changed


def _rope(drafter: Drafter, known: Known) -> Iterator[Change]:
    config = drafter.config
    bases = dict.fromkeys((known.theta, *USUAL_BASES))
    for theta in (base for base in bases if base and base != config.rope_theta):
        yield Change(
            cause="rope",
            told=f"rope_theta {theta:.0f} in place of {config.rope_theta:.0f}",
            drafter=with_config(drafter, rope_theta=theta),
        )
    for scaling in ({}, known.scaling):
        if scaling is not None and scaling != config.rope_scaling:
            yield Change(
                cause="rope",
                told="the target's RoPE scaling" if scaling else "no RoPE scaling",
                drafter=with_config(drafter, rope_scaling=scaling),
            )
    attention = drafter.midlayer.self_attn
    if isinstance(attention, Attention):
        width = attention.head_dim
        yield Change(
            cause="rope",
            told="q and k ordered by halves, from neighbouring pairs",
            drafter=with_weights(
                drafter,
                midlayer__self_attn__q_proj=_by_halves(attention.q_proj.weight, width),
                midlayer__self_attn__k_proj=_by_halves(attention.k_proj.weight, width),
            ),
        )


def _by_halves(weight: Tensor, width: int) -> Tensor:
    return weight.view(-1, width // 2, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def _heads(drafter: Drafter, known: Known) -> Iterator[Change]:
    attention = drafter.midlayer.self_attn
    if known.heads is None or not isinstance(attention, Attention):
        return
    heads, kv_heads, width = known.heads
    stated = (attention.heads, attention.kv_heads, attention.head_dim)
    fits = (heads * width, kv_heads * width) == (stated[0] * stated[2], stated[1] * stated[2])
    if known.heads == stated or not fits:
        return
    changed = with_config(drafter, head_dim=width)
    inner = changed.midlayer.self_attn
    if isinstance(inner, Attention):
        inner.heads, inner.kv_heads, inner.head_dim = heads, kv_heads, width
        inner.scale = width**-0.5
    yield Change(
        cause="attention-heads",
        told=f"the target's {heads} heads of {width} in place of {stated[0]} of {stated[2]}",
        drafter=changed,
    )


def _vocabulary(drafter: Drafter, known: Known) -> Iterator[Change]:
    own, other = drafter.lm_head.weight, known.head
    if other is None or other.shape[1] != own.shape[1]:
        return
    likeness = functional.normalize(own.float(), dim=1) @ functional.normalize(other.float()).T
    clear, nearest = likeness.max(1)
    if clear.mean() >= CLEAR and (nearest == drafter.kept).float().mean() < SAME:
        changed = sharing(drafter)
        changed.d2t = nearest - torch.arange(len(nearest), device=nearest.device)
        yield Change(
            cause="vocabulary",
            told="each row of the head for the token whose row of the target's head it is like",
            drafter=changed,
        )
    kept = drafter.kept.clamp(0, len(other) - 1)
    yield Change(
        cause="head",
        told="the target's head in place of the drafter's",
        drafter=with_weights(drafter, lm_head=other[kept].to(own.dtype)),
    )


def _embedding(drafter: Drafter, known: Known) -> Iterator[Change]:
    if known.embedding is not None and known.embedding.shape == drafter.embed_tokens.shape:
        changed = sharing(drafter)
        changed.embed_tokens = known.embedding.to(drafter.embed_tokens)
        yield Change(
            cause="embedding",
            told="the embedding of the drafter's file in place of the target's",
            drafter=changed,
        )


def _layout(drafter: Drafter, known: Known) -> Iterator[Change]:
    del known
    layer = drafter.midlayer
    yield Change(
        cause="tensor-layout",
        told="gate_proj and up_proj exchanged",
        drafter=with_weights(
            drafter,
            midlayer__mlp__gate_proj=layer.mlp.up_proj.weight,
            midlayer__mlp__up_proj=layer.mlp.gate_proj.weight,
        ),
    )
    attention = layer.self_attn
    if not isinstance(attention, Attention):
        return
    parts = {name: getattr(attention, f"{name}_proj").weight for name in "qkv"}
    for told, change in _EXCHANGES.items():
        weights = {f"midlayer__self_attn__{n}_proj": w for n, w in change(parts, attention).items()}
        yield Change(cause="tensor-layout", told=told, drafter=with_weights(drafter, **weights))


def _norms(drafter: Drafter, known: Known) -> Iterator[Change]:
    on = drafter.config.norm_output
    yield Change(
        cause="norms",
        told=f"norm_output {'off' if on else 'on'}",
        drafter=with_config(drafter, norm_output=not on),
    )
    if known.norm is not None and known.norm.shape == drafter.norm.weight.shape:
        yield Change(
            cause="norms",
            told="the target's final norm in place of the drafter's",
            drafter=with_weights(drafter, norm=known.norm.to(drafter.norm.weight)),
        )


Parts = dict[str, Tensor]


def _halves(parts: Parts, attention: Attention) -> Parts:
    del attention
    return {name: torch.cat(weight.chunk(2, dim=1)[::-1], dim=1) for name, weight in parts.items()}


def _key_heads(parts: Parts, attention: Attention) -> Parts:
    return {"k": parts["k"].roll(attention.head_dim, 0)}


_EXCHANGES: dict[str, Callable[[Parts, Attention], Parts]] = {
    "k_proj and v_proj exchanged": lambda parts, _: {"k": parts["v"], "v": parts["k"]},
    "embedding and hidden state exchanged at q, k and v": _halves,
    "the heads of k_proj moved by one": _key_heads,
}
