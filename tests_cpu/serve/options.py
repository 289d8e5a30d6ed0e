"""The options of published drafters: changes to a small drafter's config.json, and its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from eagle3_checks.reference.drafter import Drafter
from eagle3_checks.reference.drafter_config import DrafterConfig

IDS = "eagle_aux_hidden_state_layer_ids"
VOCAB, HIDDEN, LENGTH = 96, 32, 40
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 64,
    "vocab_size": VOCAB,
    "draft_vocab_size": 64,
    "tie_word_embeddings": False,
}
MLA: dict[str, Any] = LLAMA | {
    "architectures": ["Eagle3DeepseekV2ForCausalLM"],
    "model_type": "kimi_k2",
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
OPTIONS: dict[str, dict[str, Any]] = {
    "healthy": {},
    "five aux states": {"eagle_config": {IDS: [0, 1, 2, 3, 4]}},
    "two aux states by number": {"num_aux_hidden_states": 2},
    "bias": {"bias": True},
    "attention_bias": {"attention_bias": True},
    "fc_norm": {"fc_norm": True},
    "use_aux_norm": {"use_aux_norm": True},
    "norm_before_fc": {"norm_before_fc": True},
    "norm_before_fc, nested": {"eagle_config": {"norm_before_fc": True}},
    "norm_output": {"norm_output": True},
    "norm_before_residual": {"norm_before_residual": True},
    "EAGLE-3.1": {"fc_norm": True, "norm_output": True},
    "two layers": {"num_hidden_layers": 2},
    "three layers": {"num_hidden_layers": 3, "norm_output": True},
    "wide heads": {"head_dim": 16},
    "heads by division": {"head_dim": ...},
    "one key-value head": {"num_key_value_heads": 1},
    "as many key-value heads": {"num_key_value_heads": 4},
    "full vocabulary": {"draft_vocab_size": VOCAB},
    "borrowed head": {"draft_vocab_size": None},
    "tied": {"tie_word_embeddings": True, "draft_vocab_size": VOCAB},
    "another target width": {"target_hidden_size": 24},
    "theta": {"rope_theta": 500000.0},
    "theta in rope_parameters": {
        "rope_theta": ...,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
    },
    "llama3": {"rope_scaling": _LLAMA3},
    "llama3 in rope_parameters": {"rope_parameters": _LLAMA3 | {"rope_theta": 500000.0}},
    "llama3 by its old key": {
        "rope_scaling": {k: v for k, v in _LLAMA3.items() if k != "rope_type"} | {"type": "llama3"}
    },
    "linear": {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "linear in rope_parameters": {"rope_parameters": {"rope_type": "linear", "factor": 4.0}},
    "dynamic": {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
    "dynamic in rope_parameters": {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}},
    "yarn": {"rope_scaling": _YARN},
    "yarn in rope_parameters": {"rope_parameters": _YARN | {"rope_theta": 500000.0}},
    "yarn with magnitudes": {"rope_scaling": _YARN | {"mscale": 1.0, "mscale_all_dim": 0.5}},
    "yarn with betas": {"rope_scaling": _YARN | {"beta_fast": 4, "beta_slow": 2}},
    "yarn, not truncated": {"rope_scaling": _YARN | {"truncate": False}},
    "yarn of the whole context": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
}


_DEEPSEEK = _YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}
LATENT: dict[str, dict[str, Any]] = {
    # Without a scaling SGLang builds no latent attention on the CPU.
    "MLA": {"rope_scaling": _DEEPSEEK},
    "MLA, no magnitudes": {"rope_scaling": _YARN},
    "MLA, other magnitudes": {"rope_scaling": _YARN | {"mscale": 0.7, "mscale_all_dim": 0.4}},
    "MLA, betas": {"rope_scaling": _DEEPSEEK | {"beta_fast": 4, "beta_slow": 2}},
    "MLA, rope_parameters": {"rope_parameters": _DEEPSEEK | {"rope_theta": 50000.0}},
    "MLA, linear taken for YaRN": {"rope_scaling": _DEEPSEEK | {"rope_type": "linear"}},
    "MLA, five aux states": {"rope_scaling": _DEEPSEEK, IDS: [0, 1, 2, 3, 4]},
    "MLA, EAGLE-3.1": {"rope_scaling": _DEEPSEEK, "fc_norm": True, "norm_output": True},
    "MLA, bias": {"rope_scaling": _DEEPSEEK, "bias": True},
    "MLA, borrowed head": {"rope_scaling": _DEEPSEEK, "draft_vocab_size": None},
    "MLA, full vocabulary": {"rope_scaling": _DEEPSEEK, "draft_vocab_size": VOCAB},
    "MLA, another target width": {"rope_scaling": _DEEPSEEK, "target_hidden_size": 24},
}


def drafters() -> dict[str, dict[str, Any]]:
    """Return the config.json of every drafter, Llama-style and latent, by what it tries."""
    llama = {name: settings_of(LLAMA, changes) for name, changes in OPTIONS.items()}
    return llama | {name: settings_of(MLA, changes) for name, changes in LATENT.items()}


def settings_of(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a config.json; entries changed to ... are left out."""
    return {key: value for key, value in (base | changes).items() if value is not ...}


def write(folder: Path, settings: dict[str, Any], *, dtype: torch.dtype = torch.float32) -> None:
    """Write a drafter of random weights, with `inputs.safetensors` to run it on."""
    folder.mkdir(parents=True)
    config = DrafterConfig.from_json(settings)
    torch.manual_seed(len(folder.name))
    kept = torch.randperm(VOCAB)[: config.head_rows].sort().values
    drafter = Drafter(config, torch.zeros(VOCAB, HIDDEN), kept)
    tensors = drafter.state_dict()
    for name, tensor in tensors.items():
        if name.endswith("norm.weight") or "_norm." in name or name == "norm.weight":
            tensor.uniform_(0.5, 1.5)
    if config.borrowed or config.tied:
        del tensors["lm_head.weight"]
    if config.head_rows == VOCAB:
        del tensors["d2t"]
    embed, head = torch.randn(VOCAB, HIDDEN) / 4, torch.randn(VOCAB, HIDDEN) / 4
    if not config.shares_embedding:
        tensors["embed_tokens.weight"] = torch.randn(VOCAB, HIDDEN) / 4
    save_file(
        {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()},
        folder / "model.safetensors",
    )
    (folder / "config.json").write_text(json.dumps(settings))
    aux = torch.randn(LENGTH, config.fused_width)
    tokens = torch.randint(VOCAB, (LENGTH,))
    inputs = {"aux": aux, "tokens": tokens, "embed": embed, "head": head}
    save_file(inputs, folder / "inputs.safetensors")
