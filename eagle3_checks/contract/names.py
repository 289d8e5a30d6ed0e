"""Which parameter a tensor's name leads to: the naming half of SGLang's ``load_weights``."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Literal

STACKED = (
    (".q_proj", ".qkv_proj", "q"),
    (".k_proj", ".qkv_proj", "k"),
    (".v_proj", ".qkv_proj", "v"),
    (".gate_proj", ".gate_up_proj", "0"),
    (".up_proj", ".gate_up_proj", "1"),
)
"""Tensors that are parts of one parameter: their name, its name, the shard."""
_FUSED_A = "fused_qkv_a_proj_with_mqa"
_SKIPPED = ("rotary_emb.inv_freq", "projector", "rotary_emb.cos_cached", "rotary_emb.sin_cached")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a name leads."""

    parameter: str | None = None
    shard: str | None = None
    special: Literal["", "d2t", "t2d"] = ""
    stops: bool = False
    """Whether SGLang stops with an exception at this name."""
    reason: str = ""


def llama_place(name: str, known: Container[str], renames: Iterable[tuple[str, str]] = ()) -> Place:
    """Place a name as ``LlamaForCausalLMEagle3`` does, from 0.4.9 on."""
    for old, new in renames:
        name = name.replace(old, new)
    special = _map(name)
    if special:
        return special
    for part, fused, shard in STACKED:
        if part in name:
            return _found(name.replace(part, fused), known, shard)
    return _found(name, known, None)


def old_llama_place(name: str, known: Container[str], *, tied: bool) -> Place:
    """Place a name as 0.4.6 to 0.4.8 do: through the loader of ``LlamaForCausalLM``."""
    special = _map(name)
    if special:
        return special
    full = name if "lm_head" in name else f"model.{name}"
    if any(part in full for part in _SKIPPED) or (tied and "lm_head.weight" in full):
        return Place(reason="the loader of LlamaForCausalLM skips it")
    for part, fused, shard in STACKED:
        if part in full:
            full = full.replace(part, fused)
            if full in known:
                return Place(parameter=full, shard=shard)
            reason = f"no parameter is called {full if full.isprintable() else ascii(full)}"
            return Place(stops=not full.endswith(".bias"), reason=f"{reason} (KeyError)")
    return Place(parameter=full) if full in known else _unknown(full)


def mla_place(name: str, known: Container[str]) -> Place:
    """Place a name as ``Eagle3DeepseekV2ForCausalLM`` does."""
    for special in ("d2t", "t2d"):
        if name == special or name.endswith(f".{special}"):
            return Place(special=special)
    full = re.sub(r"^layers\.0\.", "midlayer.", name)
    if not full.startswith("lm_head."):
        full = f"model.{full}"
    for part, fused, shard in STACKED[3:]:
        target = full.replace(part, fused)
        if part in full and target in known:
            return Place(parameter=target, shard=shard)
    if _FUSED_A in full:
        # Its name contains kv_a_proj_with_mqa, so SGLang waits for a q_a_proj to go with it.
        return Place(reason=f"{_FUSED_A} is only put together from q_a_proj and kv_a_proj_with_mqa")
    for part, shard in (("q_a_proj", "q_a"), ("kv_a_proj_with_mqa", "kv_a")):
        if part in full:
            target = full.replace(part, _FUSED_A)
            return Place(parameter=target, shard=shard) if target in known else _unknown(target)
    return Place(parameter=full) if full in known else _unknown(full)


def _map(name: str) -> Place | None:
    """SGLang takes any name that contains d2t or t2d for the vocabulary mapping."""
    if "d2t" in name:
        return Place(special="d2t")
    return Place(special="t2d") if "t2d" in name else None


def _found(name: str, known: Container[str], shard: str | None) -> Place:
    for candidate in (name, f"model.{name}"):
        if candidate in known:
            return Place(parameter=candidate, shard=shard)
    return _unknown(name)


def _unknown(name: str) -> Place:
    return Place(reason=f"no parameter is called {name if name.isprintable() else ascii(name)}")
