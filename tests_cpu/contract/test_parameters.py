from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.checkpoint import read_draft_config
from eagle3_checks.contract.parameters import Init, Parameter, build_parameters, replay_limit
from eagle3_checks.contract.version import ContractError, contract_for

Pair = Callable[..., tuple[Path, Path]]
IDS = "eagle_aux_hidden_state_layer_ids"


@pytest.fixture
def built(tmp_path: Path, healthy_pair: Pair) -> Callable[..., dict[str, Parameter]]:
    def build(version: str = "0.5.23", **pair: Any) -> dict[str, Parameter]:
        _, drafter = healthy_pair(tmp_path, **pair)
        draft = read_draft_config(drafter)
        return {p.name: p for p in build_parameters(draft, contract_for(version))}

    return build


Build = Callable[..., dict[str, Parameter]]


def test_the_llama_class(built: Build) -> None:
    shapes = {name: p.shape for name, p in built().items()}
    assert shapes == {
        "model.embed_tokens.weight": (128, 16),
        "lm_head.weight": (64, 16),
        "model.fc.weight": (16, 48),
        "model.norm.weight": (16,),
        "model.layers.0.self_attn.qkv_proj.weight": (32, 32),
        "model.layers.0.self_attn.o_proj.weight": (16, 16),
        "model.layers.0.mlp.gate_up_proj.weight": (48, 16),
        "model.layers.0.mlp.down_proj.weight": (16, 24),
        "model.layers.0.input_layernorm.weight": (16,),
        "model.layers.0.post_attention_layernorm.weight": (16,),
        "model.layers.0.hidden_norm.weight": (16,),
    }


def test_the_llama_class_before_0_5_12(built: Build) -> None:
    parameters = built("0.5.11")
    assert "model.midlayer.self_attn.qkv_proj.weight" in parameters
    assert not any(name.startswith("model.layers.") for name in parameters)


def test_the_mla_class(built: Build) -> None:
    shapes = {name: p.shape for name, p in built(mla=True).items()}
    attention = "model.midlayer.self_attn"
    assert shapes[f"{attention}.fused_qkv_a_proj_with_mqa.weight"] == (26, 32)
    assert shapes[f"{attention}.q_b_proj.weight"] == (20, 12)
    assert shapes[f"{attention}.kv_b_proj.weight"] == (28, 10)
    assert shapes[f"{attention}.o_proj.weight"] == (16, 16)
    assert len(shapes) == 15


def test_vocabularies_are_padded(built: Build) -> None:
    head = built(draft={"draft_vocab_size": 65})["lm_head.weight"]
    assert (head.shape, head.wanted()) == ((128, 16), (65, 16))


def test_initial_values(built: Build) -> None:
    parameters = built(draft={"attention_bias": True, "bias": True})
    assert parameters["model.norm.weight"].init is Init.ONES
    assert parameters["model.fc.weight"].init is Init.RANDOM
    assert parameters["model.fc.bias"].init is Init.RANDOM
    assert parameters["model.layers.0.self_attn.o_proj.bias"].init is Init.ZEROS


def test_fc_always_has_a_bias_before_0_4_9(built: Build) -> None:
    assert "model.fc.bias" in built("0.4.8")


@pytest.mark.parametrize(
    ("version", "draft", "width"),
    [
        ("0.5.23", {}, 48),
        ("0.5.23", {"num_aux_hidden_states": 5}, 80),
        ("0.5.23", {"eagle_config": {IDS: [1, 2, 3, 4]}}, 64),
        ("0.5.23", {"eagle_config": {IDS: []}}, 48),
        ("0.5.23", {"eagle_config": {IDS: [1, 2]}, "num_aux_hidden_states": 4}, 64),
        ("0.5.23", {IDS: [1, 2, 3, 4]}, 48),
        ("0.5.23", {"target_hidden_size": 32}, 96),
        ("0.5.11", {"eagle_config": {IDS: [1, 2, 3, 4]}}, 48),
    ],
)
def test_the_width_of_fc(built: Build, version: str, draft: dict[str, Any], width: int) -> None:
    assert built(version, draft=draft)["model.fc.weight"].shape == (16, width)


def test_the_mla_class_reads_ids_at_the_top_level(built: Build) -> None:
    assert built(mla=True, draft={IDS: [1, 2, 3, 4]})["model.fc.weight"].shape == (16, 64)


@pytest.mark.parametrize(
    ("version", "draft", "present"),
    [
        ("0.5.12", {"fc_norm": True}, "model.fc_norm.2.weight"),
        ("0.5.12", {"use_aux_norm": True}, "model.fc_norm.0.weight"),
        ("0.5.17", {"norm_before_fc": True}, "model.input_norm.weight"),
        ("0.5.17", {"eagle_config": {"norm_before_fc": True}}, "model.input_norm.weight"),
    ],
)
def test_norms_by_flag(built: Build, version: str, draft: dict[str, Any], present: str) -> None:
    assert present in built(version, draft=draft)


@pytest.mark.parametrize(
    ("version", "draft"),
    [
        ("0.5.11", {"fc_norm": True}),
        ("0.5.16", {"norm_before_fc": True}),
        ("0.5.17", {"norm_before_fc": True, "eagle_config": {"norm_before_fc": False}}),
    ],
)
def test_flags_that_a_version_does_not_follow(
    built: Build, version: str, draft: dict[str, Any]
) -> None:
    names = built(version, draft=draft)
    assert not any("fc_norm" in name or "input_norm" in name for name in names)


def test_later_layers_take_one_state_and_do_not_use_their_input_norm(built: Build) -> None:
    parameters = built(draft={"num_hidden_layers": 2})
    second = parameters["model.layers.1.self_attn.qkv_proj.weight"]
    assert second.shards["q"] == (16, 16)
    assert not parameters["model.layers.1.input_layernorm.weight"].used


def test_a_tied_head_is_the_embedding(built: Build) -> None:
    assert "lm_head.weight" not in built(draft={"tie_word_embeddings": True})


def test_llama4_text_has_an_mlp_width_of_its_own(built: Build) -> None:
    draft = {"model_type": "llama4_text", "intermediate_size_mlp": 40}
    assert built(draft=draft)["model.layers.0.mlp.down_proj.weight"].shape == (16, 40)


@pytest.mark.parametrize(
    ("draft", "rows"),
    [
        ({"head_dim": ...}, 16),
        ({"head_dim": 4}, 8),
        ({"head_dim": ..., "model_type": "qwen3"}, 256),
    ],
)
def test_the_head_dimension(built: Build, draft: dict[str, Any], rows: int) -> None:
    attention = built(draft=draft)["model.layers.0.self_attn.qkv_proj.weight"]
    assert attention.shards["q"] == (rows, 32)


@pytest.mark.parametrize(
    ("version", "pair", "says"),
    [
        ("0.5.23", {"draft": {"architectures": ["LlamaForCausalLM"]}}, "serves Eagle3DeepseekV2"),
        ("0.5.11", {"mla": True}, "serves LlamaForCausalLMEagle3 as"),
        ("0.5.23", {"draft": {"hidden_size": ...}}, "hidden_size is missing"),
        ("0.5.23", {"draft": {"hidden_size": 0}}, "hidden_size is 0; it must be 1 to"),
        ("0.5.23", {"draft": {"num_hidden_layers": 10**9}}, "must be 1 to 1000"),
        ("0.5.23", {"draft": {"num_aux_hidden_states": 10**9}}, "must be 1 to 1000"),
        ("0.5.11", {"draft": {"num_hidden_layers": 2}}, "num_hidden_layers is 2; .* takes 1"),
        ("0.5.23", {"mla": True, "draft": {"num_hidden_layers": 2}}, "takes 1"),
        ("0.5.23", {"mla": True, "draft": {"q_lora_rank": None}}, "q_lora_rank is missing"),
        ("0.5.23", {"draft": {"draft_vocab_size": ...}}, "or null to borrow"),
        ("0.5.1", {"draft": {"draft_vocab_size": None}}, "does not borrow"),
        ("0.5.23", {"draft": {"target_hidden_size": None}}, "target_hidden_size is null"),
        ("0.5.23", {"draft": {"num_attention_heads": 32, "head_dim": ...}}, "hidden_size // heads"),
    ],
)
def test_what_cannot_be_built(built: Build, version: str, pair: dict[str, Any], says: str) -> None:
    with pytest.raises(ContractError, match=says):
        built(version, **pair)


def test_the_mla_class_takes_a_missing_draft_vocabulary_for_null(built: Build) -> None:
    parameters = built(mla=True, draft={"draft_vocab_size": ..., "target_hidden_size": None})
    assert parameters["lm_head.weight"].shape == (128, 16)


def test_quantised_drafters_are_left_alone(tmp_path: Path, healthy_pair: Pair) -> None:
    _, drafter = healthy_pair(tmp_path, draft={"quantization_config": {"quant_method": "fp8"}})
    assert "quantised" in str(replay_limit(read_draft_config(drafter)))
