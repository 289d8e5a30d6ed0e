"""Untrained pairs of the classes that are served for real: what is wired, not what is learnt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

VOCAB, HIDDEN, DEPTH, DRAFT_VOCAB = 256, 64, 8, 128
IDS = "eagle_aux_hidden_state_layer_ids"
SPREAD = 0.2
"""Of the initial weights: wide enough that each layer changes the state by much."""
YARN = {
    "type": "yarn",
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 128,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}
COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "intermediate_size": 96,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "initializer_range": SPREAD,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
QWEN3 = COMMON | {"num_key_value_heads": 2, "head_dim": 16}
LATENT: dict[str, Any] = {
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "rope_theta": 10000.0,
}
DEEPSEEK: dict[str, Any] = (
    COMMON
    | LATENT
    | {
        "num_key_value_heads": 4,
        "moe_intermediate_size": 32,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_shared_experts": 1,
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.0,
        "rope_scaling": YARN,
    }
)
VISION: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "init_pos_emb_height": 4,
    "init_pos_emb_width": 4,
    "mm_hidden_size": 32,
    "text_hidden_size": HIDDEN,
}


def write_target(kind: str, folder: Path, depth: int = DEPTH) -> None:
    """Write a target of kind ``qwen3``, ``deepseek`` or ``kimi`` (DeepSeek within a wrapper)."""
    torch.manual_seed(7)
    transformers.logging.disable_progress_bar()
    folder.mkdir(parents=True)
    model_type = "qwen3" if kind == "qwen3" else "deepseek_v3"
    settings = (QWEN3 if kind == "qwen3" else DEEPSEEK) | {"num_hidden_layers": depth}
    config = transformers.AutoConfig.for_model(model_type, **settings)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)
    written = json.loads((folder / "config.json").read_text()) | settings
    if kind == "kimi":
        file = folder / "model.safetensors"
        tensors = load_file(file)
        save_file({f"language_model.{name}": value for name, value in tensors.items()}, file)
        written = {
            "architectures": ["KimiK25ForConditionalGeneration"],
            "model_type": "kimi_k25",
            "text_config": written | {"model_type": "kimi_k2"},
            "vision_config": VISION,
            "torch_dtype": "float32",
        }
    (folder / "config.json").write_text(json.dumps(written, indent=2))


def write_drafter(folder: Path, ids: list[int] | None = None, *, mla: bool = False) -> None:
    """Write an untrained drafter over three aux states, Llama-style or latent."""
    torch.manual_seed(8)
    folder.mkdir(parents=True)
    config: dict[str, Any] = {
        **COMMON,
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "draft_vocab_size": DRAFT_VOCAB,
        "hidden_act": "silu",
        "rope_theta": 10000.0,
        "torch_dtype": "float32",
    }
    if mla:
        config |= LATENT | {
            "architectures": ["Eagle3DeepseekV2ForCausalLM"],
            "model_type": "kimi_k2",
            "rope_scaling": YARN,
        }
    if ids is not None:
        config["eagle_config"] = {IDS: ids, "use_aux_hidden_state": True}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    shapes = _latent_attention() if mla else _attention()
    shapes |= {
        "fc.weight": (HIDDEN, 3 * HIDDEN),
        "midlayer.mlp.gate_proj.weight": (96, HIDDEN),
        "midlayer.mlp.up_proj.weight": (96, HIDDEN),
        "midlayer.mlp.down_proj.weight": (HIDDEN, 96),
        "midlayer.input_layernorm.weight": (HIDDEN,),
        "midlayer.hidden_norm.weight": (HIDDEN,),
        "midlayer.post_attention_layernorm.weight": (HIDDEN,),
        "norm.weight": (HIDDEN,),
        "lm_head.weight": (DRAFT_VOCAB, HIDDEN),
    }
    tensors = {
        name: torch.ones(shape) if "norm" in name else 0.05 * torch.randn(shape)
        for name, shape in shapes.items()
    }
    # Every second id of the vocabulary: d2t[i] = 2 i - i.
    tensors["d2t"] = torch.arange(DRAFT_VOCAB)
    tensors["t2d"] = torch.arange(VOCAB) % 2 == 0
    save_file(tensors, folder / "model.safetensors")


def _attention() -> dict[str, tuple[int, ...]]:
    return {
        "midlayer.self_attn.q_proj.weight": (64, 2 * HIDDEN),
        "midlayer.self_attn.k_proj.weight": (32, 2 * HIDDEN),
        "midlayer.self_attn.v_proj.weight": (32, 2 * HIDDEN),
        "midlayer.self_attn.o_proj.weight": (HIDDEN, 64),
    }


def _latent_attention() -> dict[str, tuple[int, ...]]:
    return {
        "midlayer.self_attn.q_a_proj.weight": (24, 2 * HIDDEN),
        "midlayer.self_attn.q_a_layernorm.weight": (24,),
        "midlayer.self_attn.q_b_proj.weight": (4 * 24, 24),
        "midlayer.self_attn.kv_a_proj_with_mqa.weight": (24, 2 * HIDDEN),
        "midlayer.self_attn.kv_a_layernorm.weight": (16,),
        "midlayer.self_attn.kv_b_proj.weight": (4 * 32, 16),
        "midlayer.self_attn.o_proj.weight": (HIDDEN, 64),
    }
