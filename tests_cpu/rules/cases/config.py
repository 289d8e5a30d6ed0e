"""CFG001 to CFG011, CFG023 and CFG024: config.json, its form, positions, RoPE; flags."""

from __future__ import annotations

import math
from typing import Any

from eagle3_checks.profile import Server, Speculation
from tests_cpu.rules.cases.case import Case, alike, fires, healthy, skips, warns
from tests_cpu.rules.cases.tensors import IDS, weight

GPU = Server(device="cuda")
SHORT = {"max_position_embeddings": 256}
LONGER = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
SIZES = {"hidden_size": 16, "intermediate_size": 24, "model_type": "llama"}
SPECULATORS: dict[str, Any] = {
    "architectures": ["Eagle3Speculator"],
    "model_type": ...,
    "hidden_size": ...,
    "intermediate_size": ...,
    "transformer_layer_config": SIZES,
    "target_hidden_size": None,
    IDS: [2, 4, 5],
}
WIDE = {
    "midlayer.self_attn.q_proj.weight": weight(32, 32),
    "midlayer.self_attn.o_proj.weight": weight(16, 32),
}
"""Attention of two heads of 16, beside a hidden size that divides into two of 8."""


def served(*args: str, **env: str) -> Server:
    return Server(device="cuda", args=args, env=env)


def rope(theta: float, **more: Any) -> dict[str, Any]:
    return {"rope_theta": theta, "rope_type": "default", **more}


CASES: tuple[Case, ...] = (
    fires(
        "CFG001",
        "architectures is LlamaForCausalLM; SGLang 0.5.23 serves",
        draft={"architectures": ["LlamaForCausalLM"]},
    ),
    fires("CFG001", "is served from 0.5.12 on", version="0.5.11", mla=True),
    fires(
        "CFG001",
        "SGLang takes the first that it knows, LlamaForCausalLM",
        draft={"architectures": ["LlamaForCausalLM", "LlamaForCausalLMEagle3"]},
    ),
    fires(
        "CFG001",
        "the target's is one: are the two swapped?",
        draft={"architectures": ["LlamaForCausalLM"]},
        target={"architectures": ["LlamaForCausalLMEagle3"]},
    ),
    healthy("CFG001"),
    alike("CFG001", draft={"architectures": ["LlamaForCausalLMEagle3", "LlamaForCausalLM"]}),
    alike("CFG001", draft={"architectures": ["EagleLlama", "LlamaForCausalLMEagle3"]}),
    warns(
        "CFG002", "the drafter's context is 256, the target's is 512; SGLang 0.5.23", draft=SHORT
    ),
    fires("CFG002", f"refuses to start without {LONGER}=1", draft=SHORT, serving=GPU),
    fires(
        "CFG002",
        "the drafter's context is 256, --context-length is 300",
        draft=SHORT,
        serving=served("--context-length=300"),
    ),
    fires("CFG002", "refuses to start", draft=SHORT, serving=served(SGLANG_IS_IN_CI="0")),
    warns("CFG002", f"{LONGER} makes SGLang", draft=SHORT, serving=served(**{LONGER: "yes"})),
    warns("CFG002", "SGLANG_IS_IN_CI makes", draft=SHORT, serving=served(SGLANG_IS_IN_CI="true")),
    warns("CFG002", "SGLang 0.4.9 only warns", version="0.4.9", draft=SHORT, serving=GPU),
    warns(
        "CFG002",
        "is 2048 (the default: config.json states none)",
        draft={"max_position_embeddings": ...},
        target={"max_position_embeddings": 4096},
    ),
    healthy("CFG002", "the drafter's context is 512, the target's is 512"),
    alike("CFG002", draft=SHORT, serving=served("--context-length", "256")),
    alike("CFG002", draft={"max_position_embeddings": ...}),
    alike("CFG002", draft={**SHORT, "rope_scaling": {"type": "linear", "factor": 2.0}}),
    alike("CFG002", target={"rope_scaling": {"type": "yarn", "factor": 4.0}}),
    alike(
        "CFG002",
        mla=True,
        draft={"max_position_embeddings": ...},
        target={"max_position_embeddings": 4096},
    ),
    warns(
        "CFG002",
        "the target's is 2048",
        version="0.5.9",
        target={"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    ),
    skips("CFG002", "states no context length", target={"max_position_embeddings": ...}),
    fires("CFG003", "hidden_size is missing from config.json", draft={"hidden_size": ...}),
    fires("CFG003", "target_hidden_size is null", draft={"target_hidden_size": None}),
    fires("CFG003", "draft_vocab_size is 0; it must be 1 to", draft={"draft_vocab_size": 0}),
    healthy("CFG003"),
    alike("CFG003", draft={"draft_vocab_size": None}),
    fires(
        "CFG004",
        "speculation.algorithm is EAGLE; LlamaForCausalLMEagle3 needs EAGLE3",
        speculation=Speculation(algorithm="EAGLE"),
    ),
    healthy("CFG004"),
    alike("CFG004", speculation=Speculation(algorithm="eagle3")),
    fires(
        "CFG005",
        "the decoder layer's sizes are in transformer_layer_config, and model_type, hidden_size",
        draft=SPECULATORS,
    ),
    healthy("CFG005"),
    alike("CFG005", "at the top level too", draft={"transformer_layer_config": SIZES}),
    fires("CFG006", "model_type is missing", draft={"model_type": None}),
    warns("CFG006", "model_type is eagle3; trainers write", draft={"model_type": "eagle3"}),
    healthy("CFG006"),
    alike("CFG006", mla=True),
    fires("CFG007", "use_cache is null; it must be true or false", draft={"use_cache": None}),
    fires("CFG007", "rms_norm_eps is 1; it must be a decimal number", draft={"rms_norm_eps": 1}),
    fires(
        "CFG007", "hidden_act is gelu; SGLang's drafters take silu", draft={"hidden_act": "gelu"}
    ),
    fires("CFG007", "SGLang stops where", version="0.5.10", draft={"rms_norm_eps": None}),
    warns("CFG007", "later versions of", version="0.5.10", draft={"use_cache": None}),
    fires("CFG007", "rms_norm_eps is nan; it must be", draft={"rms_norm_eps": math.nan}),
    fires("CFG007", "every norm gives zeros", draft={"rms_norm_eps": math.inf}),
    fires("CFG007", "rms_norm_eps is -1e-05; it", draft={"rms_norm_eps": -1e-5}),
    fires(
        "CFG007",
        "max_position_embeddings is 0; SGLang does not start",
        draft={"max_position_embeddings": 0},
    ),
    fires(
        "CFG007",
        "max_position_embeddings is -5; SGLang builds RoPE for no position",
        version="0.4.9",
        draft={"max_position_embeddings": -5},
    ),
    warns(
        "CFG007",
        f"max_position_embeddings is -5; {LONGER} makes",
        draft={"max_position_embeddings": -5},
        serving=served(**{LONGER: "1"}),
    ),
    healthy("CFG007"),
    alike("CFG007", draft={"rms_norm_eps": 0.0, "max_position_embeddings": 1}),
    alike("CFG007", draft={"head_dim": None, "num_key_value_heads": None, "pretraining_tp": None}),
    fires(
        "CFG008",
        "q_proj and o_proj are made for 2 heads of 16; head_dim is not stated, and hidden_size 16",
        draft={"head_dim": ...},
        tensors=WIDE,
    ),
    fires("CFG008", "head_dim in config.json is 8", tensors=WIDE),
    fires("CFG008", "is no multiple of num_attention_heads 3", draft={"num_attention_heads": 3}),
    warns("CFG008", "head_dim is 8, the target's 4", target={"num_attention_heads": 4}),
    healthy("CFG008", "head_dim 8, 2 heads, 1 of keys"),
    alike("CFG008", draft={"head_dim": 16}, tensors=WIDE, target={"head_dim": 16}),
    alike("CFG008", version="0.5.10", draft={"num_attention_heads": 3}),
    skips("CFG008", "an MLA drafter has no head_dim", mla=True),
    fires(
        "CFG009",
        "rope_parameters.rope_theta is 1000000; SGLang 0.5.9 (transformers 4.57.1) builds theta "
        "10000",
        version="0.5.9",
        draft={"rope_theta": ..., "rope_parameters": rope(1e6)},
    ),
    fires(
        "CFG009",
        "builds theta 10000",
        draft={
            "rope_theta": ...,
            "rope_scaling": YARN,
            "rope_parameters": {"rope_theta": 1e6, **YARN},
        },
    ),
    fires(
        "CFG009",
        "rope_parameters scaling is yarn factor 4; SGLang 0.5.9 (transformers 4.57.1) builds "
        "default",
        version="0.5.9",
        draft={"rope_parameters": {"rope_theta": 10000.0, **YARN}},
    ),
    warns("CFG009", "rope_theta is 10000; SGLang", draft={"rope_parameters": rope(1e6)}),
    healthy("CFG009", "theta 10000, default"),
    alike("CFG009", "theta 1000000", draft={"rope_theta": ..., "rope_parameters": rope(1e6)}),
    alike(
        "CFG009",
        draft={"rope_scaling": YARN, "rope_parameters": {"rope_theta": 10000.0, **YARN}},
    ),
    fires(
        "CFG010",
        "the RoPE type is su; SGLang 0.5.23 builds",
        draft={"rope_scaling": {"type": "su"}},
    ),
    fires("CFG010", "the RoPE type yarn lacks factor", draft={"rope_scaling": {"type": "yarn"}}),
    fires("CFG010", "rope_theta is null", draft={"rope_theta": None}),
    fires("CFG010", "rope_theta is nan; its powers are NaN", draft={"rope_theta": math.nan}),
    fires("CFG010", "rope_theta is -10000; its powers", draft={"rope_theta": -1e4}),
    fires("CFG010", "rope_theta is 0; its powers", draft={"rope_theta": 0}),
    fires("CFG010", "hardly depend on their positions", draft={"rope_theta": math.inf}),
    fires("CFG010", "torch takes no number as large", draft={"rope_theta": 10**400}),
    fires(
        "CFG010",
        "rope_theta is nan",
        draft={"rope_theta": ..., "rope_parameters": rope(math.nan)},
    ),
    warns(
        "CFG010",
        "rope_scaling states a and no rope_type; SGLang 0.5.23 takes that for default",
        draft={"rope_scaling": {"a": 1}},
    ),
    warns("CFG010", "states factor and no rope_type", draft={"rope_scaling": {"factor": 2.0}}),
    fires("CFG010", "no rope_type", version="0.5.9", draft={"rope_scaling": {"factor": 2.0}}),
    healthy("CFG010"),
    alike("CFG010", draft={"rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]}}),
    alike("CFG010", draft={"rope_theta": ..., "rope_parameters": {"rope_theta": 10000.0}}),
    alike("CFG010", draft={"rope_theta": 1}),
    alike("CFG010", draft={"rope_scaling": LLAMA3}),
    warns(
        "CFG011",
        "the drafter's RoPE is theta 10000, default, the target's theta 500000, llama3 factor 8",
        target={"rope_theta": 5e5, "rope_scaling": LLAMA3},
    ),
    healthy("CFG011"),
    alike("CFG011", target={"rope_theta": ..., "rope_parameters": rope(10000.0)}),
    skips("CFG011", "states no RoPE", target={"rope_theta": ...}),
    skips(
        "CFG011",
        "a RoPE for each type of layer",
        target={"rope_parameters": {"full_attention": rope(1e6)}},
    ),
    warns(
        "CFG023",
        "speculation.draft_tokens is 8; at topk 1 SGLang serves 4 = steps 3 + 1",
        speculation=Speculation(steps=3, topk=1, draft_tokens=8),
    ),
    fires(
        "CFG023",
        "a tree of 1 steps and topk 4 has 4 = 4 + (1 - 1) x 4 x 4 candidates",
        speculation=Speculation(steps=1, topk=4, draft_tokens=8),
    ),
    healthy("CFG023", "a chain of 3 steps, 4 draft tokens"),
    alike("CFG023", speculation=Speculation(steps=2, topk=2, draft_tokens=7)),
    fires(
        "CFG024",
        "--speculative-use-rejection-sampling is given, but draft_vocab_size 64 differs",
        serving=served("--speculative-use-rejection-sampling"),
    ),
    warns("CFG024", "--speculative-token-map is", serving=served("--speculative-token-map", "x")),
    warns("CFG024", "--enable-multi-layer-eagle", serving=served("--enable-multi-layer-eagle")),
    healthy("CFG024", serving=GPU),
    alike(
        "CFG024",
        draft={"draft_vocab_size": 128},
        serving=served("--speculative-use-rejection-sampling"),
    ),
    skips("CFG024", "needs the server flags of a profile"),
)
