"""The parameters that SGLang builds for a drafter, under SGLang's own names, at one rank (TP 1).

Source: sglang/srt/models/llama_eagle3.py, kimi_k25_eagle3.py, deepseek_v2.py and
sglang/srt/layers/linear.py, vocab_parallel_embedding.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from eagle3_checks.contract.dims import Dims, dims_of
from eagle3_checks.contract.version import LLAMA, Contract
from eagle3_checks.facts import DraftConfig, Shape

VOCAB_PADDING = 64
"""Rows of embeddings and heads are padded to a multiple of this."""


class Init(StrEnum):
    """What a parameter holds before loading."""

    RANDOM = "random"
    """Uninitialised memory, or torch's random values: meaningless either way."""
    ONES = "ones"
    ZEROS = "zeros"


class Kind(StrEnum):
    """How a parameter takes a tensor, which decides what happens to one of another shape."""

    PLAIN = "plain"
    """The whole tensor, of exactly the same shape."""
    VOCAB = "vocab"
    """Rows and columns must match; padding rows are zeroed."""
    ROWS = "rows"
    """Split along rows among ranks: surplus rows are cut off."""
    COLUMNS = "columns"
    """Split along columns among ranks: surplus columns are cut off."""
    QKV = "qkv"
    """Query, key and value rows in one; surplus rows of each are cut off."""
    GATE_UP = "gate-up"
    """Gate and up rows in one; surplus rows of each are cut off."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of the drafter's module."""

    name: str
    shape: Shape
    kind: Kind
    init: Init
    shards: Mapping[str, Shape] = field(default_factory=dict)
    """Shapes of the tensors it is put together from, by shard; empty where it is one tensor."""
    takes: Shape = ()
    """Shape of the tensor it takes as a whole, where padding makes that another one."""
    used: bool = True
    """Whether the forward pass reads it."""

    def wanted(self, shard: str | None = None) -> Shape:
        """Return the shape of the tensor wanted, for a shard or as a whole."""
        return self.takes or self.shape if shard is None else self.shards[shard]


def build_parameters(draft: DraftConfig, contract: Contract) -> tuple[Parameter, ...]:
    """Return what the drafter's class builds; ContractError where SGLang stops or differs.

    Quantised drafters are not covered: see `replay_limit`.
    """
    dims = dims_of(draft, contract)
    build = _llama if dims.drafter_class == LLAMA else _mla
    return tuple(build(dims, contract))


def replay_limit(draft: DraftConfig) -> str | None:
    """Say why the parameters of this drafter cannot be worked out from its config, or None."""
    if draft.raw.get("quantization_config"):
        return (
            "the drafter is quantised (quantization_config); its parameters depend on the "
            "quantisation method and are not worked out from files"
        )
    return None


def _llama(dims: Dims, contract: Contract) -> Iterator[Parameter]:
    yield from _shared_parts(dims)
    single = contract.llama.layer_module == "midlayer"
    for layer in range(dims.layers):
        prefix = "model.midlayer" if single else f"model.layers.{layer}"
        width = 2 * dims.hidden if layer == 0 else dims.hidden
        yield from _attention(dims, f"{prefix}.self_attn", width)
        yield from _mlp(dims, f"{prefix}.mlp")
        # Later layers norm the hidden state with hidden_norm and have no embedding to norm.
        yield _norm(f"{prefix}.input_layernorm", dims.hidden, used=layer == 0)
        yield _norm(f"{prefix}.post_attention_layernorm", dims.hidden)
        yield _norm(f"{prefix}.hidden_norm", dims.hidden)


def _mla(dims: Dims, contract: Contract) -> Iterator[Parameter]:
    split = contract.mla is not None and contract.mla.fc_split
    yield from _shared_parts(dims, Kind.ROWS if split else Kind.PLAIN)
    prefix = "model.midlayer"
    size = dims.mla
    query = dims.heads * (size["qk_nope_head_dim"] + size["qk_rope_head_dim"])
    keys = size["kv_lora_rank"] + size["qk_rope_head_dim"]
    values = dims.heads * size["v_head_dim"]
    width = 2 * dims.hidden
    attention = f"{prefix}.self_attn"
    yield Parameter(
        name=f"{attention}.fused_qkv_a_proj_with_mqa.weight",
        shape=(size["q_lora_rank"] + keys, width),
        kind=Kind.PLAIN,
        init=Init.RANDOM,
        shards=MappingProxyType({"q_a": (size["q_lora_rank"], width), "kv_a": (keys, width)}),
    )
    yield _norm(f"{attention}.q_a_layernorm", size["q_lora_rank"])
    yield _weight(f"{attention}.q_b_proj", (query, size["q_lora_rank"]), Kind.ROWS)
    yield _norm(f"{attention}.kv_a_layernorm", size["kv_lora_rank"])
    rows = dims.heads * size["qk_nope_head_dim"] + values
    yield _weight(f"{attention}.kv_b_proj", (rows, size["kv_lora_rank"]), Kind.ROWS)
    yield _weight(f"{attention}.o_proj", (dims.hidden, values), Kind.COLUMNS)
    yield from _mlp(dims, f"{prefix}.mlp")
    for norm in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        yield _norm(f"{prefix}.{norm}", dims.hidden)


def _shared_parts(dims: Dims, fc: Kind = Kind.PLAIN) -> Iterator[Parameter]:
    """Embedding, head, fusion layer and final norm, which both classes have."""
    yield _vocab("model.embed_tokens", dims.vocab, dims.hidden)
    if not dims.tied:
        yield _vocab("lm_head", dims.draft_vocab, dims.hidden)
    yield _weight("model.fc", (dims.hidden, dims.fused), fc)
    if dims.fc_bias:
        yield _bias("model.fc", dims.hidden, Init.RANDOM)
    if dims.norm_before_fc:
        yield _norm("model.input_norm", dims.fused)
    if dims.fc_norm:
        for state in range(dims.aux):
            yield _norm(f"model.fc_norm.{state}", dims.target_hidden)
    yield _norm("model.norm", dims.hidden)


def _attention(dims: Dims, prefix: str, width: int) -> Iterator[Parameter]:
    query, keys = dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim
    yield Parameter(
        name=f"{prefix}.qkv_proj.weight",
        shape=(query + 2 * keys, width),
        kind=Kind.QKV,
        init=Init.RANDOM,
        shards=MappingProxyType({"q": (query, width), "k": (keys, width), "v": (keys, width)}),
    )
    yield _weight(f"{prefix}.o_proj", (dims.hidden, query), Kind.COLUMNS)
    if dims.o_bias:
        yield _bias(f"{prefix}.o_proj", dims.hidden, Init.ZEROS)


def _mlp(dims: Dims, prefix: str) -> Iterator[Parameter]:
    half = (dims.intermediate, dims.hidden)
    yield Parameter(
        name=f"{prefix}.gate_up_proj.weight",
        shape=(2 * dims.intermediate, dims.hidden),
        kind=Kind.GATE_UP,
        init=Init.RANDOM,
        shards=MappingProxyType({"0": half, "1": half}),
    )
    yield _weight(f"{prefix}.down_proj", (dims.hidden, dims.intermediate), Kind.COLUMNS)


def _vocab(module: str, rows: int, columns: int) -> Parameter:
    padded = -(-rows // VOCAB_PADDING) * VOCAB_PADDING
    return Parameter(
        name=f"{module}.weight",
        shape=(padded, columns),
        kind=Kind.VOCAB,
        init=Init.RANDOM,
        takes=(rows, columns),
    )


def _weight(module: str, shape: Shape, kind: Kind) -> Parameter:
    return Parameter(name=f"{module}.weight", shape=shape, kind=kind, init=Init.RANDOM)


def _bias(module: str, size: int, init: Init) -> Parameter:
    return Parameter(name=f"{module}.bias", shape=(size,), kind=Kind.PLAIN, init=init)


def _norm(module: str, size: int, *, used: bool = True) -> Parameter:
    return Parameter(
        name=f"{module}.weight", shape=(size,), kind=Kind.PLAIN, init=Init.ONES, used=used
    )
