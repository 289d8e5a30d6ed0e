"""KEY: planted defects, healthy files, look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eagle3_checks.verdict import Finding, Severity, Status

Judge = Callable[..., tuple[Finding, ...]]


def weight(*shape: int) -> tuple[str, tuple[int, ...], None]:
    return "BF16", shape, None


def told(findings: tuple[Finding, ...]) -> str:
    return "\n".join(f"{f.severity.value}: {f.message}\n  {f.fix}" for f in findings)


@pytest.mark.parametrize(
    ("version", "layer"),
    [
        ("0.5.23", "decoder"),
        ("0.5.9", "layers.0"),
        ("0.5.23", "midlayer.0"),
        ("0.5.23", "draft_model.layers.0"),
    ],
)
def test_a_renamed_decoder_layer_is_one_problem_with_its_cure(
    judge_files: Judge, version: str, layer: str, snapshot: Any
) -> None:
    findings = judge_files("KEY001", version, layer=layer)
    assert [f.is_error for f in findings] == [True]
    assert len(findings[0].evidence["tensors"]) == 10
    assert told(findings) == snapshot


@pytest.mark.parametrize(
    ("name", "told_as"),
    [
        ("junk{0}.weight", 1),
        ("model.layers.{0}.x.weight", 13),
        ("{0}" + "n" * 300 + ".weight", 1),
        ("{1}.weight", 13),
    ],
)
@pytest.mark.parametrize("version", ["0.5.23", "0.4.9"])
def test_any_number_of_unknown_tensors_is_told_in_short(
    judge_files: Judge, name: str, told_as: int, version: str
) -> None:
    unknown = (name.format(i, "".join(chr(103 + int(d)) for d in str(i))) for i in range(3000))
    findings = judge_files("KEY001", version, tensors=dict.fromkeys(unknown, weight(1)))
    assert len(findings) == told_as
    assert sum(f.evidence["count"] for f in findings) == 3000
    assert all(len(f.message + f.fix) < 1200 for f in findings)
    assert all(len(f.evidence["tensors"]) <= 1000 for f in findings)


def test_any_number_of_refused_tensors_is_told_in_short(judge_files: Judge) -> None:
    names = [f"midlayer.{i}.self_attn.q_proj.weight" for i in range(300)]
    findings = judge_files("KEY004", "0.4.8", tensors=dict.fromkeys(names, weight(1)))
    assert len(findings) == 13
    assert findings[-1].message.startswith("288 more tensors, as midlayer.12.self_attn")


def test_layers_0_is_healthy_from_0_5_12_on(judge_files: Judge) -> None:
    (finding,) = judge_files("KEY001", "0.5.12", layer="layers.0")
    assert (finding.status, finding.message) == (Status.PASS, "all of 15 tensors are read")


@pytest.mark.parametrize(
    ("name", "version", "says", "cure"),
    [
        ("model.lm_head.weight", "0.5.23", "model.lm_head.weight", "leave this copy out"),
        ("midlayer.self_attn.q_proj.bias", "0.5.23", "qkv_proj.bias", "without a bias"),
        ("midlayer.self_attn.q_norm.weight", "0.5.23", "q_norm", "no query and key norms"),
        ("fc_norm.0.weight", "0.5.23", "fc_norm.0", "write fc_norm: true"),
        ("fc_norm.0.weight", "0.5.11", "fc_norm.0", "from 0.5.12 on"),
        ("input_norm.weight", "0.5.16", "input_norm", "from 0.5.17 on"),
        ("input_norm.weight", "0.5.17", "input_norm", "write norm_before_fc: true"),
        ("layers.1.mlp.up_proj.weight", "0.5.23", "layers.1", "num_hidden_layers is 1"),
        ("lora_a.weight", "0.5.23", "lora_a.weight", "builds no parameter of that name"),
    ],
)
def test_what_else_is_dropped(
    judge_files: Judge, name: str, version: str, says: str, cure: str
) -> None:
    (finding,) = judge_files("KEY001", version, tensors={name: weight(8)})
    assert finding.is_error
    assert says in finding.message
    assert cure in finding.fix


def test_a_head_below_the_model(judge_files: Judge) -> None:
    tensors = {"lm_head.weight": ..., "model.lm_head.weight": weight(64, 16)}
    (finding,) = judge_files("KEY001", tensors=tensors)
    assert finding.fix == "Take the prefix model. off the names."


def test_a_prefix_over_all_names_is_taken_off(judge_files: Judge, snapshot: Any) -> None:
    tensors = {
        "fc.weight": ...,
        "norm.weight": ...,
        "draft_model.fc.weight": weight(16, 48),
        "draft_model.norm.weight": weight(16),
    }
    assert told(judge_files("KEY001", tensors=tensors)) == snapshot


def test_a_tied_head_that_is_dropped(judge_files: Judge) -> None:
    (finding,) = judge_files("KEY001", draft={"tie_word_embeddings": True})
    assert finding.fix.startswith("tie_word_embeddings is true, so the embedding serves")


def test_buffers_that_sglang_computes_are_healthy(judge_files: Judge) -> None:
    tensors = {"midlayer.self_attn.rotary_emb.inv_freq": ("F32", (4,), None)}
    assert judge_files("KEY001", tensors=tensors)[0].status is Status.PASS


def test_a_config_that_cannot_be_built_skips(judge_files: Judge) -> None:
    (finding,) = judge_files("KEY001", draft={"hidden_size": ...})
    assert finding.status is Status.SKIP
    assert "hidden_size is missing" in finding.message


def test_quantised_drafters_are_skipped_with_the_reason(judge_files: Judge) -> None:
    draft = {"quantization_config": {"quant_method": "fp8"}}
    (finding,) = judge_files("KEY002", draft=draft)
    assert finding.status is Status.SKIP
    assert "quantised" in finding.message


def test_a_missing_head(judge_files: Judge, snapshot: Any) -> None:
    findings = judge_files("KEY002", tensors={"lm_head.weight": ...})
    assert [f.is_error for f in findings] == [True]
    assert told(findings) == snapshot


def test_a_missing_head_with_draft_vocabulary_null_is_healthy(judge_files: Judge) -> None:
    (finding,) = judge_files(
        "KEY002", draft={"draft_vocab_size": None}, tensors={"lm_head.weight": ...}
    )
    assert finding.status is Status.PASS
    assert "the target's: model.embed_tokens.weight, lm_head.weight" in finding.message


def test_a_missing_head_of_the_whole_vocabulary_may_be_borrowed(judge_files: Judge) -> None:
    (finding,) = judge_files(
        "KEY002", draft={"draft_vocab_size": 128}, tensors={"lm_head.weight": ...}
    )
    assert "write draft_vocab_size: null" in finding.fix


def test_a_missing_embedding_beside_another_target_width(judge_files: Judge) -> None:
    draft, tensors = {"target_hidden_size": 32}, {"fc.weight": weight(16, 96)}
    (finding,) = judge_files("KEY002", draft=draft, tensors=tensors)
    assert finding.is_error
    assert "embed_tokens.weight is missing: target_hidden_size 32" in finding.message


def test_an_absent_embedding_is_healthy(judge_files: Judge) -> None:
    assert judge_files("KEY002")[0].status is Status.PASS


def test_a_part_that_is_missing(judge_files: Judge) -> None:
    (finding,) = judge_files("KEY002", tensors={"midlayer.self_attn.v_proj.weight": ...})
    assert "model.layers.0.self_attn.qkv_proj.weight (its v part)" in finding.message


def test_missing_norms_are_a_warning(judge_files: Judge) -> None:
    (finding,) = judge_files("KEY002", tensors={"norm.weight": ...})
    assert (finding.status, finding.severity) == (Status.FAIL, Severity.WARNING)
    assert "1 parameter left at ones: model.norm.weight" in finding.message


def test_the_unused_norm_of_a_later_layer_is_healthy(judge_files: Judge) -> None:
    second = {
        "layers.1.self_attn.q_proj.weight": weight(16, 16),
        "layers.1.self_attn.k_proj.weight": weight(8, 16),
        "layers.1.self_attn.v_proj.weight": weight(8, 16),
        "layers.1.self_attn.o_proj.weight": weight(16, 16),
        "layers.1.mlp.gate_proj.weight": weight(24, 16),
        "layers.1.mlp.up_proj.weight": weight(24, 16),
        "layers.1.mlp.down_proj.weight": weight(16, 24),
        "layers.1.hidden_norm.weight": weight(16),
        "layers.1.post_attention_layernorm.weight": weight(16),
    }
    (finding,) = judge_files("KEY002", draft={"num_hidden_layers": 2}, tensors=second)
    assert finding.status is Status.PASS


def test_a_drafter_without_aux_states_needs_no_fc(judge_files: Judge) -> None:
    draft = {"eagle_config": {"use_aux_hidden_state": False}}
    assert judge_files("KEY002", draft=draft, tensors={"fc.weight": ...})[0].status is Status.PASS
    (before,) = judge_files("KEY002", "0.5.7", draft=draft, tensors={"fc.weight": ...})
    assert before.is_error


@pytest.mark.parametrize(("version", "layer"), [("0.5.23", "decoder"), ("0.5.9", "layers.0")])
def test_no_decoder_layer(judge_files: Judge, version: str, layer: str, snapshot: Any) -> None:
    findings = judge_files("KEY003", version, layer=layer)
    assert [f.is_error for f in findings] == [True]
    assert told(findings) == snapshot


@pytest.mark.parametrize(
    ("version", "layer"),
    [("0.5.9", "midlayer"), ("0.5.12", "layers.0"), ("0.5.23", "model.layers.0")],
)
def test_a_decoder_layer_under_a_known_name(judge_files: Judge, version: str, layer: str) -> None:
    (finding,) = judge_files("KEY003", version, layer=layer)
    assert (finding.status, finding.message) == (Status.PASS, f"10 tensors read, as {layer}.*")


Q_PROJ = "SGLang builds [16, 32] = heads 2 x head_dim 8, 2 x hidden_size 16"
DOWN = "SGLang builds [16, 24] = hidden_size 16, intermediate_size 24"
HEAD = "SGLang builds [64, 16] = draft_vocab_size 64, hidden_size 16"


@pytest.mark.parametrize(
    ("name", "shape", "formula", "effect"),
    [
        ("midlayer.self_attn.q_proj.weight", (16, 16), Q_PROJ, "the server stops while loading"),
        ("midlayer.self_attn.q_proj.weight", (32, 32), Q_PROJ, "the surplus is cut off in silence"),
        ("midlayer.mlp.down_proj.weight", (16, 20), DOWN, "is filled with zeros in silence"),
        ("lm_head.weight", (128, 16), HEAD, "the server stops while loading"),
        ("norm.weight", (8,), "SGLang builds [16] = hidden_size 16", "the server stops"),
    ],
)
def test_a_shape_that_does_not_fit(
    judge_files: Judge, name: str, shape: tuple[int, ...], formula: str, effect: str
) -> None:
    (finding,) = judge_files("KEY004", tensors={name: weight(*shape)})
    assert finding.is_error
    assert finding.message.startswith(f"{name} is {list(shape)}; {formula}; ")
    assert effect in finding.message


def test_an_mla_shape_that_does_not_fit(judge_files: Judge) -> None:
    name = "midlayer.self_attn.kv_b_proj.weight"
    (finding,) = judge_files("KEY004", mla=True, tensors={name: weight(20, 10)})
    assert "heads 2 x (qk_nope_head_dim 6 + v_head_dim 8), kv_lora_rank 10" in finding.message


def test_the_shape_of_fc_is_another_rules(judge_files: Judge) -> None:
    assert judge_files("KEY004", tensors={"fc.weight": weight(16, 16)})[0].status is Status.PASS


def test_a_name_at_which_an_old_version_stops(judge_files: Judge) -> None:
    findings = judge_files("KEY004", "0.4.8", layer="layers.0")
    assert len(findings) == 5
    assert "SGLang 0.4.8 stops while loading: no parameter is called" in findings[0].message
