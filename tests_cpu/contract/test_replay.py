from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.checkpoint import read_draft_config, read_manifest
from eagle3_checks.contract.replay import Fate, LoadPlan, State, replay
from eagle3_checks.contract.version import contract_for, known_versions

Pair = Callable[..., tuple[Path, Path]]
Replay = Callable[..., LoadPlan]
LAYER_TENSORS = 10


def weight(*shape: int) -> tuple[str, tuple[int, ...], None]:
    return "BF16", shape, None


@pytest.fixture
def played(tmp_path: Path, healthy_pair: Pair) -> Replay:
    def play(version: str = "0.5.23", **pair: Any) -> LoadPlan:
        _, drafter = healthy_pair(tmp_path, **pair)
        manifest, draft = read_manifest(drafter), read_draft_config(drafter)
        return replay(manifest, draft, contract_for(version))

    return play


def fates(plan: LoadPlan) -> dict[str, Fate]:
    return {t.name: t.fate for t in plan.tensors}


def states(plan: LoadPlan) -> dict[str, State]:
    return {p.name: p.state for p in plan.parameters}


@pytest.mark.parametrize("version", known_versions()[known_versions().index("0.4.9") :])
def test_midlayer_is_read_by_every_version(played: Replay, version: str) -> None:
    plan = played(version)
    assert plan.with_fate(Fate.DROPPED, Fate.FATAL, Fate.CUT, Fate.PADDED) == ()
    assert plan.unfilled == ()
    assert plan.token_map == "d2t"
    assert fates(plan)["t2d"] is Fate.IGNORED
    assert states(plan)["model.embed_tokens.weight"] is State.TARGET


def test_the_oldest_loader_reads_midlayer_too_but_has_a_bias(played: Replay) -> None:
    plan = played("0.4.8")
    assert [p.name for p in plan.unfilled] == ["model.fc.bias"]


@pytest.mark.parametrize(
    ("version", "layer", "prefix"),
    [
        ("0.5.9", "midlayer", "model.midlayer"),
        ("0.5.11", "midlayer", "model.midlayer"),
        ("0.5.12", "midlayer", "model.layers.0"),
        ("0.5.12", "layers.0", "model.layers.0"),
        ("0.5.17", "layers.0", "model.layers.0"),
        ("0.5.23", "midlayer", "model.layers.0"),
        ("0.5.23", "layers.0", "model.layers.0"),
        ("0.5.23", "model.layers.0", "model.layers.0"),
        ("0.5.9", "model.midlayer", "model.midlayer"),
    ],
)
def test_names_the_decoder_layer_is_read_under(
    played: Replay, version: str, layer: str, prefix: str
) -> None:
    plan = played(version, layer=layer)
    reached = {t.name: (t.parameter, t.shard) for t in plan.tensors}
    assert plan.with_fate(Fate.DROPPED) == ()
    assert reached[f"{layer}.self_attn.k_proj.weight"] == (
        f"{prefix}.self_attn.qkv_proj.weight",
        "k",
    )
    assert reached[f"{layer}.mlp.up_proj.weight"] == (f"{prefix}.mlp.gate_up_proj.weight", "1")
    assert reached[f"{layer}.hidden_norm.weight"] == (f"{prefix}.hidden_norm.weight", None)


@pytest.mark.parametrize(
    ("version", "layer"),
    [
        ("0.5.9", "layers.0"),
        ("0.5.11", "layers.0"),
        ("0.5.23", "decoder"),
        ("0.5.23", "midlayer.0"),
        ("0.5.23", "layers.1"),
        ("0.5.23", "draft_model.layers.0"),
    ],
)
def test_names_the_decoder_layer_is_dropped_under(played: Replay, version: str, layer: str) -> None:
    plan = played(version, layer=layer)
    dropped = plan.with_fate(Fate.DROPPED)
    assert len(dropped) == LAYER_TENSORS
    assert all(t.name.startswith(layer) for t in dropped)
    assert len(plan.unfilled) == 7


def test_the_oldest_loader_stops_at_an_unknown_projection(played: Replay) -> None:
    plan = played("0.4.8", layer="layers.0")
    stops = {t.name.rpartition(".")[0].rpartition(".")[2] for t in plan.with_fate(Fate.FATAL)}
    assert stops == {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"}
    assert "(KeyError)" in plan.with_fate(Fate.FATAL)[0].reason
    assert fates(plan)["layers.0.hidden_norm.weight"] is Fate.DROPPED


def test_a_dropped_name_is_told_as_it_was_looked_for(played: Replay) -> None:
    plan = played(layer="decoder")
    reasons = {t.name: t.reason for t in plan.tensors}
    assert reasons["decoder.self_attn.q_proj.weight"] == (
        "no parameter is called decoder.self_attn.qkv_proj.weight"
    )


def test_biases_and_head_norms_have_no_place(played: Replay) -> None:
    extra = {
        "midlayer.self_attn.q_proj.bias": weight(16),
        "midlayer.self_attn.q_norm.weight": weight(8),
    }
    dropped = played(tensors=extra).with_fate(Fate.DROPPED)
    assert {t.name for t in dropped} == set(extra)


def test_any_name_with_d2t_is_taken(played: Replay) -> None:
    plan = played(tensors={"d2t": ..., "my_d2t_copy": ("I64", (64,), None)})
    assert plan.token_map == "my_d2t_copy"


def test_a_part_that_is_missing_leaves_the_rest(played: Replay) -> None:
    plan = played(tensors={"midlayer.self_attn.v_proj.weight": ...})
    (part,) = plan.unfilled
    assert (part.name, part.state, part.missing) == (
        "model.layers.0.self_attn.qkv_proj.weight",
        State.PARTLY,
        ("v",),
    )


def test_a_fused_tensor_fills_the_whole(played: Replay) -> None:
    parts = {f"midlayer.self_attn.{p}_proj.weight": ... for p in "qkv"}
    plan = played(tensors={**parts, "midlayer.self_attn.qkv_proj.weight": weight(32, 32)})
    assert plan.unfilled == ()
    assert plan.with_fate(Fate.DROPPED) == ()


@pytest.mark.parametrize(
    ("version", "name", "shape", "fate"),
    [
        ("0.5.23", "fc.weight", (16, 16), Fate.FATAL),
        ("0.5.23", "norm.weight", (8,), Fate.FATAL),
        ("0.5.23", "lm_head.weight", (128, 16), Fate.FATAL),
        ("0.5.23", "midlayer.self_attn.q_proj.weight", (16, 16), Fate.FATAL),
        ("0.5.23", "midlayer.self_attn.q_proj.weight", (16,), Fate.FATAL),
        ("0.5.23", "midlayer.self_attn.q_proj.weight", (32, 32), Fate.CUT),
        ("0.5.23", "midlayer.self_attn.q_proj.weight", (8, 32), Fate.FATAL),
        ("0.5.23", "midlayer.mlp.up_proj.weight", (20, 16), Fate.PADDED),
        ("0.5.2", "midlayer.mlp.up_proj.weight", (20, 16), Fate.FATAL),
        ("0.5.23", "midlayer.mlp.down_proj.weight", (16, 30), Fate.CUT),
        ("0.5.23", "midlayer.mlp.down_proj.weight", (16, 20), Fate.PADDED),
        ("0.5.23", "midlayer.self_attn.o_proj.weight", (16, 32), Fate.CUT),
    ],
)
def test_shapes_that_do_not_fit(
    played: Replay, version: str, name: str, shape: tuple[int, ...], fate: Fate
) -> None:
    assert fates(played(version, tensors={name: weight(*shape)}))[name] is fate


def test_a_refused_tensor_leaves_nothing_unfilled(played: Replay) -> None:
    plan = played(tensors={"fc.weight": weight(16, 16)})
    assert states(plan)["model.fc.weight"] is State.REFUSED
    assert plan.unfilled == ()


def test_a_borrowed_head_needs_no_tensor(played: Replay) -> None:
    plan = played(draft={"draft_vocab_size": None}, tensors={"lm_head.weight": ..., "d2t": ...})
    assert states(plan)["lm_head.weight"] is State.TARGET
    assert plan.unfilled == ()


def test_a_missing_head_stays_random(played: Replay) -> None:
    plan = played(tensors={"lm_head.weight": ...})
    assert [p.name for p in plan.unfilled] == ["lm_head.weight"]


def test_a_tied_head_drops_the_head(played: Replay) -> None:
    plan = played(draft={"tie_word_embeddings": True})
    assert fates(plan)["lm_head.weight"] is Fate.DROPPED
    assert "lm_head.weight" not in states(plan)


def test_an_own_embedding_is_loaded_and_then_replaced(played: Replay) -> None:
    plan = played(tensors={"embed_tokens.weight": weight(128, 16)})
    (own,) = (p for p in plan.parameters if p.name == "model.embed_tokens.weight")
    assert (own.state, own.by) == (State.TARGET, ("embed_tokens.weight",))


def test_with_another_target_width_the_embedding_is_the_drafters(played: Replay) -> None:
    plan = played(draft={"target_hidden_size": 32}, tensors={"fc.weight": weight(16, 96)})
    assert [p.name for p in plan.unfilled] == ["model.embed_tokens.weight"]


def test_norms_by_legacy_names(played: Replay) -> None:
    names = ("aux_norm_low", "aux_norm_mid", "aux_norm_high")
    plan = played(draft={"fc_norm": True}, tensors={f"{n}.weight": weight(16) for n in names})
    assert plan.with_fate(Fate.DROPPED) == ()
    assert plan.unfilled == ()


@pytest.mark.parametrize("layer", ["midlayer", "layers.0"])
def test_the_mla_class(played: Replay, layer: str) -> None:
    plan = played(mla=True, layer=layer)
    assert plan.with_fate(Fate.DROPPED, Fate.FATAL) == ()
    assert plan.unfilled == ()
    shards = {t.shard: t.parameter for t in plan.tensors if t.shard}
    fused = "model.midlayer.self_attn.fused_qkv_a_proj_with_mqa.weight"
    assert (shards["q_a"], shards["kv_a"]) == (fused, fused)


def test_the_mla_class_knows_no_model_prefix(played: Replay) -> None:
    plan = played(mla=True, layer="model.layers.0")
    assert len(plan.with_fate(Fate.DROPPED)) == 13


def test_half_of_the_fused_projection_is_never_written(played: Replay) -> None:
    plan = played(mla=True, tensors={"midlayer.self_attn.kv_a_proj_with_mqa.weight": ...})
    (left,) = plan.with_fate(Fate.DROPPED)
    assert "until kv_a_proj_with_mqa comes" in left.reason
    assert len(plan.unfilled) == 1


def test_the_mla_class_does_not_take_its_fused_projection(played: Replay) -> None:
    halves = {f"midlayer.self_attn.{n}.weight": ... for n in ("q_a_proj", "kv_a_proj_with_mqa")}
    fused = "midlayer.self_attn.fused_qkv_a_proj_with_mqa.weight"
    plan = played(mla=True, tensors={**halves, fused: weight(26, 32)})
    assert fates(plan)[fused] is Fate.DROPPED


def test_the_mla_class_takes_d2t_only_as_a_last_name(played: Replay) -> None:
    plan = played(mla=True, tensors={"d2t": ..., "d2t_copy": ("I64", (64,), None)})
    assert plan.token_map is None


def test_the_mla_class_has_no_input_norm(played: Replay) -> None:
    plan = played(
        mla=True, draft={"norm_before_fc": True}, tensors={"input_norm.weight": weight(48)}
    )
    assert fates(plan)["input_norm.weight"] is Fate.DROPPED
