"""Drafters that the loader is tried with: changes to the healthy pair of tests_cpu/conftest.py."""

from __future__ import annotations

from typing import Any

IDS = "eagle_aux_hidden_state_layer_ids"
FIVE = {"eagle_config": {IDS: [0, 1, 2, 3, 4]}}
TWO_LAYERS = {"num_hidden_layers": 2}
EMBED, FC, HEAD = "embed_tokens.weight", "fc.weight", "lm_head.weight"


def weight(*shape: int) -> tuple[str, tuple[int, ...], None]:
    return "BF16", shape, None


def second_layer(**norms: Any) -> dict[str, Any]:
    inside = {
        "self_attn.q_proj.weight": weight(16, 16),
        "self_attn.k_proj.weight": weight(8, 16),
        "self_attn.v_proj.weight": weight(8, 16),
        "self_attn.o_proj.weight": weight(16, 16),
        "mlp.gate_proj.weight": weight(24, 16),
        "mlp.up_proj.weight": weight(24, 16),
        "mlp.down_proj.weight": weight(16, 24),
        "post_attention_layernorm.weight": weight(16),
        **norms,
    }
    return {f"layers.1.{name}": spec for name, spec in inside.items()}


def fc_norms(*names: str) -> dict[str, Any]:
    return {f"{name}.weight": weight(16) for name in names}


Case = dict[str, Any]
LEGACY = ("aux_norm_low", "aux_norm_mid", "aux_norm_high")
LLAMA: dict[str, Case] = {
    "healthy": {},
    "layers.0": {"layer": "layers.0"},
    "model.layers.0": {"layer": "model.layers.0"},
    "model.midlayer": {"layer": "model.midlayer"},
    "midlayer.0": {"layer": "midlayer.0"},
    "draft_model": {"layer": "draft_model.layers.0"},
    "decoder": {"layer": "decoder"},
    "both names": {"tensors": {"layers.0.self_attn.q_proj.weight": weight(16, 32)}},
    "biases": {
        "tensors": {f"midlayer.self_attn.{p}_proj.bias": weight(8) for p in "kv"}
        | {"midlayer.self_attn.q_proj.bias": weight(16), "midlayer.mlp.up_proj.bias": weight(24)}
    },
    "attention_bias": {
        "draft": {"attention_bias": True},
        "tensors": {"midlayer.self_attn.o_proj.bias": weight(16)},
    },
    "attention_bias without one": {"draft": {"attention_bias": True}},
    "bias": {"draft": {"bias": True}, "tensors": {"fc.bias": weight(16)}},
    "fc.bias without the flag": {"tensors": {"fc.bias": weight(16)}},
    "query and key norms": {
        "tensors": {f"midlayer.self_attn.{p}_norm.weight": weight(8) for p in "qk"}
    },
    "no head": {"tensors": {HEAD: ...}},
    "model.lm_head": {"tensors": {HEAD: ..., "model.lm_head.weight": weight(64, 16)}},
    "no fc": {"tensors": {FC: ...}},
    "model.fc": {"tensors": {FC: ..., "model.fc.weight": weight(16, 48)}},
    "no v": {"tensors": {"midlayer.self_attn.v_proj.weight": ...}},
    "no norm": {"tensors": {"norm.weight": ...}},
    "fused qkv": {
        "tensors": {f"midlayer.self_attn.{p}_proj.weight": ... for p in "qkv"}
        | {"midlayer.self_attn.qkv_proj.weight": weight(32, 32)}
    },
    "fused gate and up": {
        "tensors": {f"midlayer.mlp.{p}_proj.weight": ... for p in ("gate", "up")}
        | {"midlayer.mlp.gate_up_proj.weight": weight(48, 16)}
    },
    "own embedding": {"tensors": {EMBED: weight(128, 16)}},
    "another target width": {
        "draft": {"target_hidden_size": 32},
        "tensors": {FC: weight(16, 96), EMBED: weight(128, 16)},
    },
    "another target width, no embedding": {
        "draft": {"target_hidden_size": 32},
        "tensors": {FC: weight(16, 96)},
    },
    "target_hidden_size null": {"draft": {"target_hidden_size": None}},
    "tied": {"draft": {"tie_word_embeddings": True}},
    "tied, own embedding": {
        "draft": {"tie_word_embeddings": True},
        "tensors": {HEAD: ..., EMBED: weight(128, 16)},
    },
    "head borrowed": {
        "draft": {"draft_vocab_size": None},
        "tensors": {HEAD: ..., "d2t": ..., "t2d": ...},
    },
    "head borrowed, and there": {
        "draft": {"draft_vocab_size": None},
        "tensors": {HEAD: weight(128, 16)},
    },
    "head borrowed, of another size": {"draft": {"draft_vocab_size": None}},
    "no draft_vocab_size": {"draft": {"draft_vocab_size": ...}},
    "draft_vocab_size 65": {
        "draft": {"draft_vocab_size": 65},
        "tensors": {HEAD: weight(65, 16)},
    },
    "head of the whole vocabulary": {"tensors": {HEAD: weight(128, 16)}},
    "unknown tensors": {
        "tensors": {
            "midlayer.self_attn.rotary_emb.inv_freq": weight(4),
            "anything": weight(1),
            "lm_head.scale": weight(1),
        }
    },
    "fc_norm": {
        "draft": {"fc_norm": True},
        "tensors": fc_norms("fc_norm.0", "fc_norm.1", "fc_norm.2"),
    },
    "fc_norm by its old names": {"draft": {"use_aux_norm": True}, "tensors": fc_norms(*LEGACY)},
    "fc_norm without the flag": {"tensors": fc_norms(*LEGACY)},
    "fc_norm without tensors": {"draft": {"fc_norm": True}},
    "input_norm": {
        "draft": {"norm_before_fc": True},
        "tensors": {"input_norm.weight": weight(48)},
    },
    "input_norm by eagle_config": {
        "draft": {"eagle_config": {"norm_before_fc": True}},
        "tensors": {"input_norm.weight": weight(48)},
    },
    "input_norm, eagle_config says no": {
        "draft": {"norm_before_fc": True, "eagle_config": {"norm_before_fc": False}},
        "tensors": {"input_norm.weight": weight(48)},
    },
    "two layers": {
        "draft": TWO_LAYERS,
        "tensors": second_layer(**{"hidden_norm.weight": weight(16)}),
    },
    "two layers in vLLM's form": {
        "draft": TWO_LAYERS,
        "tensors": second_layer(**{"input_layernorm.weight": weight(16)}),
    },
    "two layers, one there": {"draft": TWO_LAYERS},
    "a second layer that is not meant": {
        "tensors": second_layer(**{"hidden_norm.weight": weight(16)})
    },
    "five states": {"draft": FIVE, "tensors": {FC: weight(16, 80)}},
    "five states, fc of three": {"draft": FIVE},
    "four states by number": {
        "draft": {"num_aux_hidden_states": 4, **FIVE},
        "tensors": {FC: weight(16, 64)},
    },
    "five states at the top level": {"draft": {IDS: [0, 1, 2, 3, 4]}},
    "no ids": {"draft": {"eagle_config": {IDS: []}}},
    "no d2t": {"tensors": {"d2t": ..., "t2d": ...}},
    "d2t with a prefix": {"tensors": {"d2t": ..., "model.d2t": ("I64", (64,), None)}},
    "d2t twice": {"tensors": {"my_d2t_copy": ("I64", (64,), None)}},
    "d2t of floats": {"tensors": {"d2t": ("F32", (64,), None)}},
    "fc square": {"tensors": {FC: weight(16, 16)}},
    "q of one width": {"tensors": {"midlayer.self_attn.q_proj.weight": weight(16, 16)}},
    "q with a surplus": {"tensors": {"midlayer.self_attn.q_proj.weight": weight(32, 32)}},
    "up too narrow": {"tensors": {"midlayer.mlp.up_proj.weight": weight(20, 16)}},
    "down with a surplus": {"tensors": {"midlayer.mlp.down_proj.weight": weight(16, 30)}},
    "down too narrow": {"tensors": {"midlayer.mlp.down_proj.weight": weight(16, 20)}},
    "o with a surplus": {"tensors": {"midlayer.self_attn.o_proj.weight": weight(16, 32)}},
    "norm too short": {"tensors": {"norm.weight": weight(8)}},
    "llama4_text": {
        "draft": {"model_type": "llama4_text", "intermediate_size_mlp": 24, "intermediate_size": 8},
    },
    "no head_dim": {"draft": {"head_dim": ...}},
    "no key-value heads": {
        "draft": {"num_key_value_heads": ...},
        "tensors": {f"midlayer.self_attn.{p}_proj.weight": weight(16, 32) for p in "kv"},
    },
}
YARN = {
    "rope_type": "yarn",
    "factor": 2.0,
    "original_max_position_embeddings": 256,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}
"""Without a scaling SGLang builds no latent attention on the CPU."""
A = "midlayer.self_attn."
MLA: dict[str, Case] = {
    "healthy": {},
    "layers.0": {"layer": "layers.0"},
    "model.layers.0": {"layer": "model.layers.0"},
    "no kv_a": {"tensors": {f"{A}kv_a_proj_with_mqa.weight": ...}},
    "fused a": {
        "tensors": {
            f"{A}q_a_proj.weight": ...,
            f"{A}kv_a_proj_with_mqa.weight": ...,
            f"{A}fused_qkv_a_proj_with_mqa.weight": weight(26, 32),
        }
    },
    "no kv_b": {"tensors": {f"{A}kv_b_proj.weight": ...}},
    "no fc": {"tensors": {FC: ...}},
    "model.fc": {"tensors": {FC: ..., "model.fc.weight": weight(16, 48)}},
    "fc square": {"tensors": {FC: weight(16, 16)}},
    "fc with surplus rows": {"tensors": {FC: weight(24, 48)}},
    "fc_norm": {
        "draft": {"fc_norm": True},
        "tensors": fc_norms("fc_norm.0", "fc_norm.1", "fc_norm.2"),
    },
    "fc_norm by its old names": {"draft": {"fc_norm": True}, "tensors": fc_norms(*LEGACY)},
    "input_norm": {
        "draft": {"norm_before_fc": True},
        "tensors": {"input_norm.weight": weight(48)},
    },
    "no draft_vocab_size": {
        "draft": {"draft_vocab_size": ...},
        "tensors": {HEAD: ..., "d2t": ..., "t2d": ...},
    },
    "no head": {"tensors": {HEAD: ...}},
    "tied": {"draft": {"tie_word_embeddings": True}},
    "own embedding": {"tensors": {EMBED: weight(128, 16)}},
    "another target width": {
        "draft": {"target_hidden_size": 32},
        "tensors": {FC: weight(16, 96), EMBED: weight(128, 16)},
    },
    "target_hidden_size null": {"draft": {"target_hidden_size": None}},
    "five states at the top level": {
        "draft": {IDS: [0, 1, 2, 3, 4]},
        "tensors": {FC: weight(16, 80)},
    },
    "two layers": {"draft": TWO_LAYERS},
    "d2t with a prefix": {"tensors": {"d2t": ..., "model.d2t": ("I64", (64,), None)}},
    "d2t within a name": {"tensors": {"d2t": ..., "d2t_copy": ("I64", (64,), None)}},
}
ON_THE_CPU_ALONE = {
    "q too short": {"tensors": {"midlayer.self_attn.q_proj.weight": weight(8, 32)}},
}
"""What the CPU engine pads, where a GPU server stops: the replay follows the GPU's."""


def latent(case: Case) -> Case:
    draft = {"rope_scaling": YARN, **case.get("draft", {})}
    return {**case, "draft": draft, "mla": True}
