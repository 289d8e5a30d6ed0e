"""The formula behind the shape of each parameter, for messages."""

from __future__ import annotations

from eagle3_checks.contract.dims import Dims
from eagle3_checks.contract.parameters import Parameter


def formula(dims: Dims, parameter: Parameter, shard: str | None) -> str:
    """Return the wanted shape in the config's words, as in ``heads 4 x head_dim 32, …``."""
    module = parameter.name.removesuffix(".weight").removesuffix(".bias").rpartition(".")[2]
    if parameter.name.startswith("model.fc_norm."):
        return f"target hidden {dims.target_hidden}"
    hidden = f"hidden_size {dims.hidden}"
    query = f"heads {dims.heads} x head_dim {dims.head_dim}"
    keys = f"kv heads {dims.kv_heads} x head_dim {dims.head_dim}"
    inner = f"intermediate_size {dims.intermediate}"
    words = {
        "fc": f"{hidden}, {dims.formula}",
        "input_norm": dims.formula,
        "embed_tokens": f"vocab_size {dims.vocab}, {hidden}",
        "lm_head": f"draft_vocab_size {dims.draft_vocab}, {hidden}",
        "o_proj": f"{hidden}, {query}",
        "gate_up_proj": f"{inner if shard else f'2 x {inner}'}, {hidden}",
        "down_proj": f"{hidden}, {inner}",
    }
    if dims.mla:
        words |= _mla(dims, shard)
    if module == "qkv_proj":
        rows = {"q": query, "k": keys, "v": keys}.get(shard or "", f"{query} + 2 x {keys}")
        return f"{rows}, {_input(dims, parameter)}"
    return words.get(module, hidden)


def _input(dims: Dims, parameter: Parameter) -> str:
    """Return the input width of attention: the first layer sees embedding and hidden state."""
    double = parameter.shape[1] == 2 * dims.hidden
    return f"{'2 x ' if double else ''}hidden_size {dims.hidden}"


def _mla(dims: Dims, shard: str | None) -> dict[str, str]:
    size = dims.mla
    width = f"2 x hidden_size {dims.hidden}"
    query, key = f"q_lora_rank {size['q_lora_rank']}", f"kv_lora_rank {size['kv_lora_rank']}"
    rope, nope = (
        f"qk_rope_head_dim {size['qk_rope_head_dim']}",
        (f"qk_nope_head_dim {size['qk_nope_head_dim']}"),
    )
    value = f"v_head_dim {size['v_head_dim']}"
    rows = {"q_a": query, "kv_a": f"{key} + {rope}"}.get(shard or "", f"{query} + {key} + {rope}")
    return {
        "fused_qkv_a_proj_with_mqa": f"{rows}, {width}",
        "q_a_layernorm": query,
        "kv_a_layernorm": key,
        "q_b_proj": f"heads {dims.heads} x ({nope} + {rope}), {query}",
        "kv_b_proj": f"heads {dims.heads} x ({nope} + {value}), {key}",
        "o_proj": f"hidden_size {dims.hidden}, heads {dims.heads} x {value}",
    }
