"""The sizes SGLang takes from a drafter's config.json, defaults filled in as it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eagle3_checks.contract.version import LLAMA, MLA, Contract, ContractError
from eagle3_checks.facts import DraftConfig

DEFAULT_AUX = 3
MAX_LAYERS = 1000
"""More layers, or aux states, than any model has."""
MAX_SIZE = 1 << 31

_HEAD_DIM = {"qwen3": 128, "qwen3_moe": 128}
"""``head_dim`` where the config states none and transformers does not divide."""
_KV_HEADS = {"qwen2": 32, "qwen3": 32}
"""``num_key_value_heads`` where the config states none and it is not ``num_attention_heads``."""
_MLA_SIZES = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")


@dataclass(frozen=True, kw_only=True)
class Dims:
    """What the module is built with."""

    drafter_class: str
    hidden: int
    target_hidden: int
    """Width of one aux hidden state."""
    aux: int
    """Aux hidden states that ``fc`` fuses."""
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    draft_vocab: int
    tied: bool
    """Whether the embedding serves as the head, whatever `draft_vocab` says."""
    borrowed: bool
    """Whether the head is the target's."""
    shares_embedding: bool
    """Whether the embedding is replaced by the target's after loading."""
    fc_norm: bool
    norm_before_fc: bool
    fc_bias: bool
    o_bias: bool
    mla: Mapping[str, int]
    """Ranks and head sizes of multi-head latent attention; empty for the Llama class."""

    @property
    def fused(self) -> int:
        """Input width of ``fc``."""
        return self.aux * self.target_hidden

    @property
    def formula(self) -> str:
        """The input width of ``fc`` in words."""
        noun = "aux state" if self.aux == 1 else "aux states"
        return f"{self.aux} {noun} x target hidden {self.target_hidden}"


def served_class(draft: DraftConfig, contract: Contract) -> str | None:
    """Return the architecture under which this version serves the drafter, or None.

    SGLang takes the first one that it knows, be it no drafter's.
    """
    known = (n for n in draft.architectures if n in contract.classes or n in contract.targets)
    first = next(known, None)
    return first if first in contract.classes else None


def dims_of(draft: DraftConfig, contract: Contract) -> Dims:
    """Work out the sizes; ContractError says why SGLang could not, or could not be followed."""
    drafter_class = served_class(draft, contract)
    if drafter_class is None:
        raise ContractError(
            f"architectures is {list(draft.architectures)}; SGLang {contract.name} serves "
            f"{' and '.join(contract.classes)} as EAGLE-3 drafters"
        )
    raw = draft.raw
    hidden = _size(draft.hidden_size, "hidden_size")
    heads = _size(draft.num_attention_heads, "num_attention_heads")
    layers = _size(draft.num_hidden_layers, "num_hidden_layers", MAX_LAYERS)
    many = drafter_class == LLAMA and contract.llama.many_layers
    if layers != 1 and not many:
        raise ContractError(
            f"num_hidden_layers is {layers}; {drafter_class} of SGLang {contract.name} takes 1"
        )
    tied = bool(raw.get("tie_word_embeddings"))
    borrowed, draft_vocab = _draft_vocab(draft, contract, drafter_class, tied=tied)
    loader = contract.llama if drafter_class == LLAMA else contract.mla
    eagle = raw.get("eagle_config") or {}
    bias = bool(raw.get("bias"))
    return Dims(
        drafter_class=drafter_class,
        hidden=hidden,
        target_hidden=_target_hidden(draft, drafter_class, hidden),
        aux=_aux_count(draft, contract, drafter_class),
        layers=layers,
        heads=heads,
        kv_heads=_kv_heads(draft, heads),
        head_dim=_head_dim(draft, hidden, heads),
        intermediate=_intermediate(draft, contract, drafter_class),
        vocab=_size(draft.vocab_size, "vocab_size"),
        draft_vocab=draft_vocab,
        tied=tied,
        borrowed=borrowed,
        shares_embedding=borrowed or _same_hidden(draft, hidden),
        fc_norm=bool(loader and loader.fc_norm and (raw.get("fc_norm") or raw.get("use_aux_norm"))),
        norm_before_fc=bool(
            drafter_class == LLAMA
            and contract.llama.norm_before_fc
            and _lookup(eagle, "norm_before_fc", raw.get("norm_before_fc"))
        ),
        fc_bias=bias or (drafter_class == LLAMA and contract.llama.fc_bias == "always"),
        o_bias=drafter_class == LLAMA and bool(bias or raw.get("attention_bias")),
        mla={k: _size(_int(raw, k), k) for k in _MLA_SIZES} if drafter_class == MLA else {},
    )


def _size(value: int | None, key: str, largest: int = MAX_SIZE) -> int:
    if value is None:
        raise ContractError(
            f"{key} is missing from config.json; transformers then fills in the size of another "
            f"model: write the drafter's own {key}"
        )
    if not 1 <= value <= largest:
        raise ContractError(f"{key} is {value}; it must be 1 to {largest}")
    return value


def _draft_vocab(
    draft: DraftConfig, contract: Contract, drafter_class: str, *, tied: bool
) -> tuple[bool, int]:
    """Return whether the head is borrowed, and how many rows it has."""
    stated = draft.draft_vocab_size
    if tied:
        return False, stated or _size(draft.vocab_size, "vocab_size")
    if stated is not None:
        return False, _size(stated, "draft_vocab_size")
    if drafter_class == LLAMA and "draft_vocab_size" not in draft.raw:
        raise ContractError(
            f"draft_vocab_size is missing from config.json; {LLAMA} reads it and stops: write the "
            "number of rows of lm_head.weight"
            + (", or null to borrow the target's head" if contract.llama.borrows_head else "")
        )
    if drafter_class == LLAMA and not contract.llama.borrows_head:
        raise ContractError(
            f"draft_vocab_size is null; SGLang {contract.name} does not borrow the target's head: "
            "write the number of rows of lm_head.weight"
        )
    return True, _size(draft.vocab_size, "vocab_size")


def _target_hidden(draft: DraftConfig, drafter_class: str, hidden: int) -> int:
    if draft.target_hidden_size is not None:
        return _size(draft.target_hidden_size, "target_hidden_size")
    if drafter_class == LLAMA and "target_hidden_size" in draft.raw:
        raise ContractError(
            f"target_hidden_size is null; {LLAMA} multiplies it by the number of aux states and "
            "stops: remove the key, or write the target's hidden_size"
        )
    return hidden


def _same_hidden(draft: DraftConfig, hidden: int) -> bool:
    return draft.target_hidden_size in (None, hidden)


def _aux_count(draft: DraftConfig, contract: Contract, drafter_class: str) -> int:
    """Return K; num_aux_hidden_states, then eagle_config's ids, then three.

    The MLA class ignores the number and reads the ids at the top level too.
    """
    if drafter_class == LLAMA and contract.llama.aux_count == "three":
        return DEFAULT_AUX
    ids = draft.aux_layer_ids
    if drafter_class == LLAMA:
        if draft.num_aux_hidden_states is not None:
            return _size(draft.num_aux_hidden_states, "num_aux_hidden_states", MAX_LAYERS)
        return len(ids) if ids else DEFAULT_AUX
    if ids is None:
        ids = draft.aux_layer_ids_top_level
    return DEFAULT_AUX if ids is None else _size(len(ids), "the number of aux layer ids")


def _kv_heads(draft: DraftConfig, heads: int) -> int:
    if draft.num_key_value_heads is not None:
        return _size(draft.num_key_value_heads, "num_key_value_heads")
    return _KV_HEADS.get(draft.model_type or "", heads)


def _head_dim(draft: DraftConfig, hidden: int, heads: int) -> int:
    if draft.head_dim is not None:
        return _size(draft.head_dim, "head_dim")
    return _HEAD_DIM.get(draft.model_type or "") or _size(hidden // heads, "hidden_size // heads")


def _intermediate(draft: DraftConfig, contract: Contract, drafter_class: str) -> int:
    wide = contract.llama.intermediate_size_mlp and drafter_class == LLAMA
    if wide and draft.model_type == "llama4_text":
        return _size(_int(draft.raw, "intermediate_size_mlp"), "intermediate_size_mlp")
    return _size(draft.intermediate_size, "intermediate_size")


def _int(raw: Mapping[str, Any], key: str) -> int | None:
    value = raw.get(key)
    return value if type(value) is int else None


def _lookup(values: Any, key: str, otherwise: Any) -> Any:
    return values.get(key, otherwise) if isinstance(values, Mapping) else otherwise
