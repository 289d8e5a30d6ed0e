"""SRC and KEY."""

from __future__ import annotations

from pathlib import Path

from tests_cpu.rules.cases.case import Case, alike, fires, healthy, skips, warns
from tests_cpu.rules.cases.tensors import EMBEDDING, HEAD, weight, writing

SECOND = {
    "layers.1.self_attn.q_proj.weight": weight(16, 16),
    "layers.1.self_attn.k_proj.weight": weight(8, 16),
    "layers.1.self_attn.v_proj.weight": weight(8, 16),
    "layers.1.self_attn.o_proj.weight": weight(16, 16),
    "layers.1.mlp.gate_proj.weight": weight(24, 16),
    "layers.1.mlp.up_proj.weight": weight(24, 16),
    "layers.1.mlp.down_proj.weight": weight(16, 24),
    "layers.1.post_attention_layernorm.weight": weight(16),
}
"""A second decoder layer, without the norm of its input."""
TWO = {"num_hidden_layers": 2}
BORROWED = {"draft_vocab_size": None}
NO_MAP = {"d2t": ..., "t2d": ...}


def cut(target: Path, drafter: Path) -> None:
    weights = drafter / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def pickled(target: Path, drafter: Path) -> None:
    (drafter / "model.safetensors").rename(drafter / "pytorch_model.bin")


def pickled_too(target: Path, drafter: Path) -> None:
    (drafter / "pytorch_model.bin").touch()


def without_config(target: Path, drafter: Path) -> None:
    (target / "config.json").unlink()


CASES: tuple[Case, ...] = (
    fires("SRC001", "(100 missing)", edit=cut),
    healthy("SRC001", "15 tensors in 1 file"),
    skips("SRC001", "there is no safetensors file to read (SRC004)", edit=pickled),
    fires(
        "SRC002",
        "config.json: hidden_size is '16'; it must be a whole number",
        draft={"hidden_size": "16"},
    ),
    fires("SRC002", "norm_output is 'yes'; it must be true or", draft={"norm_output": "yes"}),
    fires("SRC002", "rope_scaling is 'yarn'; it must be an object", draft={"rope_scaling": "yarn"}),
    fires("SRC002", "rope_theta is '1e6'; it must be a number", draft={"rope_theta": "1e6"}),
    healthy("SRC002"),
    alike("SRC002", draft={"eagle_config": None, "num_aux_hidden_states": None, "head_dim": None}),
    fires("SRC003", "config.json: there is no such file", edit=without_config),
    healthy("SRC003"),
    alike("SRC003", target={"eos_token_id": [1, 2], "torch_dtype": None}),
    fires("SRC004", "is never opened here", edit=pickled),
    healthy("SRC004"),
    alike("SRC004", edit=pickled_too),
    warns("SRC005", "SGLang 99.1 is not known; it is judged as 0.5.23, the newest", version="99.1"),
    warns("SRC005", "0.5.9.post9 is not known; it is judged as 0.5.9, the", version="0.5.9.post9"),
    healthy("SRC005", "0.5.23"),
    alike("SRC005", "0.4.6.post5", version="0.4.6.post5"),
    fires("KEY001", "10 tensors decoder.* (", layer="decoder"),
    fires("KEY001", "10 tensors midlayer.0.* (", layer="midlayer.0"),
    fires("KEY001", "10 tensors draft_model.layers.0.* (", layer="draft_model.layers.0"),
    fires("KEY001", "13 tensors model.layers.0.* (", mla=True, layer="model.layers.0"),
    fires(
        "KEY001",
        "midlayer.self_attn.q_proj.bias is dropped by SGLang 0.5.23",
        tensors={"midlayer.self_attn.q_proj.bias": weight(16)},
    ),
    fires("KEY001", "fc.bias is dropped", tensors={"fc.bias": weight(16)}),
    warns(
        "KEY001",
        "norm.weight, model.norm.weight are read into one place by SGLang 0.5.23",
        tensors={"model.norm.weight": weight(16)},
    ),
    warns(
        "KEY001",
        "layers.0.self_attn.o_proj.weight are read into one place",
        tensors={"layers.0.self_attn.o_proj.weight": weight(16, 16)},
    ),
    healthy("KEY001", "all of 15 tensors are read"),
    alike(
        "KEY001",
        tensors={n: weight(128, 16) for n in ("embed_tokens.weight", "model.embed_tokens.weight")},
    ),
    alike("KEY001", layer="layers.0"),
    alike("KEY001", layer="model.layers.0"),
    alike("KEY001", tensors={"fc.bias": weight(16)}, draft={"bias": True}),
    alike("KEY001", tensors={"midlayer.self_attn.rotary_emb.inv_freq": weight(4, dtype="F32")}),
    fires("KEY002", "lm_head.weight is missing: draft_vocab_size is 64", tensors={HEAD: ...}),
    fires(
        "KEY002",
        "embed_tokens.weight is missing: target_hidden_size 32",
        draft={"target_hidden_size": 32},
        tensors={"fc.weight": weight(16, 96)},
    ),
    fires("KEY002", "model.fc.bias", draft={"bias": True}),
    warns("KEY002", "1 parameter left at ones: model.norm.weight", tensors={"norm.weight": ...}),
    healthy("KEY002"),
    alike("KEY002", "the target's: ", draft=BORROWED, tensors={HEAD: ..., **NO_MAP}),
    skips(
        "KEY002",
        "the drafter is quantised (fp8)",
        draft={"quantization_config": {"quant_method": "fp8"}},
    ),
    fires("KEY003", "no tensor is read into the decoder layer", layer="decoder"),
    fires("KEY003", "SGLang 0.5.9 reads midlayer.* (layers.0.*", version="0.5.9", layer="layers.0"),
    skips("KEY003", "its shapes are not: KEY004", draft={"hidden_size": 48}),
    healthy("KEY003", "10 tensors read, as midlayer.*"),
    alike("KEY003", "10 tensors read, as layers.0.*", layer="layers.0"),
    fires(
        "KEY004",
        "SGLang builds [16, 32] = heads 2 x head_dim 8, 2 x hidden_size 16",
        tensors={"midlayer.self_attn.q_proj.weight": weight(32, 32)},
    ),
    healthy("KEY004"),
    alike("KEY004", tensors={"fc.weight": weight(16, 16)}),
    alike(
        "KEY004", draft={"quantization_config": {"quant_method": "modelopt", "quant_algo": None}}
    ),
    fires(
        "KEY005",
        "layers.1.input_layernorm.weight is read into a norm that SGLang never uses",
        draft=TWO,
        tensors={**SECOND, "layers.1.input_layernorm.weight": weight(16)},
    ),
    healthy("KEY005", "num_hidden_layers 1"),
    alike(
        "KEY005",
        draft=TWO,
        tensors={
            **SECOND,
            "layers.1.input_layernorm.weight": weight(16),
            "layers.1.hidden_norm.weight": weight(16),
        },
    ),
    warns(
        "KEY006",
        "embed_requires_grad is true, so embed_tokens.weight was trained",
        draft={"embed_requires_grad": True},
        tensors={EMBEDDING: weight(128, 16)},
    ),
    healthy("KEY006", "the drafter ships none"),
    alike("KEY006", "is replaced by the target's", tensors={EMBEDDING: weight(128, 16)}),
    alike(
        "KEY006",
        "keeps its own",
        draft={"embed_requires_grad": True, "target_hidden_size": 32},
        tensors={EMBEDDING: weight(128, 16), "fc.weight": weight(16, 96)},
    ),
    fires(
        "KEY007",
        "which is 32 wide (target_hidden_size); the drafter's state is 16 wide",
        draft={**BORROWED, "target_hidden_size": 32},
        tensors={HEAD: ..., **NO_MAP},
    ),
    warns(
        "KEY007",
        "so lm_head.weight is thrown away",
        draft=BORROWED,
        tensors={HEAD: weight(128, 16), **NO_MAP},
    ),
    healthy("KEY007", "has a head of its own"),
    alike("KEY007", "the target's head", draft=BORROWED, tensors={HEAD: ..., **NO_MAP}),
    skips(
        "KEY004",
        "the drafter is quantised (FP8)",
        edit=writing("drafter", "hf_quant_config.json", {"quantization": {"quant_algo": "FP8"}}),
    ),
)
