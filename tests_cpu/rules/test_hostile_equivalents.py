"""What changes nothing for SGLang is no error, and each single mutation is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3_checks.rules.base import STATIC_FACTS, Facts, run_rules
from eagle3_checks.rules.registry import all_rules
from eagle3_checks.verdict import Finding, Status
from tests_cpu.conftest import DRAFT_VOCAB, SHIFT, draft_tensors, safetensors_bytes
from tests_cpu.rules.cases.tensors import IDS, weight

Pair = Callable[..., tuple[Path, Path]]
RULES = [rule for rule in all_rules() if set(rule.needs()) <= STATIC_FACTS]
LAYERS = ("midlayer", "layers.0", "model.layers.0", "model.midlayer")
SAME_CONFIG: dict[str, tuple[Any, ...]] = {
    "num_aux_hidden_states": (None, 3),
    "target_hidden_size": (16,),
    "head_dim": (None, 8),
    "eagle_config": (None, {}, {"use_aux_hidden_state": True}, {IDS: [1, 3, 4]}, {IDS: None}),
    "fc_norm": (None, False),
    "norm_before_fc": (None, False),
    "norm_before_residual": (None, False),
    "bias": (None, False),
    "attention_bias": (False, True),
    "rope_scaling": (None, {}),
    "rope_parameters": (None, {"rope_type": "default", "rope_theta": 10000.0}),
    "torch_dtype": ("bfloat16", "torch.bfloat16"),
    "dtype": ("bfloat16",),
    "quantization_config": (None,),
    "use_cache": (True, False),
    "sliding_window": (None,),
    "max_position_embeddings": (512, 4096),
    "pad_token_id": (None, 0),
    "a_key_of_a_trainer": ("x", None, [1], {"y": 2}),
}
MORE_TENSORS: dict[str, Any] = {
    "embed_tokens.weight": weight(128, 16),
    "midlayer.self_attn.rotary_emb.inv_freq": weight(4, dtype="F32"),
    "t2d": ...,
    "d2t": ("I32", (DRAFT_VOCAB,), b"".join((SHIFT).to_bytes(4, "little") for _ in range(64))),
}
MUTATIONS = sorted(name for name in draft_tensors() if name not in ("d2t", "t2d"))
SILENT = frozenset({"norm.weight", *(n for n in MUTATIONS if "norm" in n)})
"""Tensors whose loss is a warning: a norm of ones."""


def configs() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {}, optional={key: st.sampled_from(values) for key, values in SAME_CONFIG.items()}
    )


def errors(facts: Facts) -> list[Finding]:
    return [f for f in run_rules(RULES, facts) if f.status is Status.FAIL and f.is_error]


CHANGES = st.fixed_dictionaries(
    {
        "draft": configs(),
        "more": st.sets(st.sampled_from(sorted(MORE_TENSORS))),
        "layer": st.sampled_from(LAYERS),
        "order": st.randoms(use_true_random=False),
        "shards": st.integers(1, 3),
    }
)


@settings(max_examples=60, deadline=None)
@given(change=CHANGES)
def test_what_changes_nothing_is_no_error(
    tmp_path_factory: pytest.TempPathFactory,
    healthy_pair: Pair,
    read_facts: Callable[..., Facts],
    change: dict[str, Any],
) -> None:
    home = tmp_path_factory.mktemp("pair")
    target, drafter = healthy_pair(home, draft=change["draft"])
    tensors = {**draft_tensors(change["layer"]), **{n: MORE_TENSORS[n] for n in change["more"]}}
    names = [name for name in tensors if tensors[name] is not ...]
    change["order"].shuffle(names)
    write_shards(drafter, {name: tensors[name] for name in names}, change["shards"])
    assert [(f.code, f.message) for f in errors(read_facts(target, drafter))] == []


def write_shards(drafter: Path, tensors: dict[str, Any], shards: int) -> None:
    (drafter / "model.safetensors").unlink()
    placed: dict[str, str] = {}
    names = list(tensors)
    for shard in range(shards):
        file = f"model-{shard}.safetensors"
        held = names[shard::shards]
        (drafter / file).write_bytes(safetensors_bytes({name: tensors[name] for name in held}))
        placed |= dict.fromkeys(held, file)
    if shards > 1:
        index = {"weight_map": placed}
        (drafter / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.parametrize("how", ["lost", "renamed", "transposed"])
def test_one_mutation_is_told(
    tmp_path: Path, healthy_pair: Pair, read_facts: Callable[..., Facts], name: str, how: str
) -> None:
    dtype, shape, data = draft_tensors()[name]
    changes: dict[str, Any] = {name: ...}
    if how == "renamed":
        changes[f"x.{name}.y"] = (dtype, shape, data)
    elif how == "transposed":
        changes[name] = (dtype, (*shape[::-1], *[2] * (len(shape) == 1)), None)
    facts = read_facts(*healthy_pair(tmp_path, tensors=changes))
    found = [f for f in run_rules(RULES, facts) if f.status is Status.FAIL]
    square = how == "transposed" and shape == shape[::-1] and len(shape) > 1
    assert bool(found) is not square
    if how == "transposed":
        return
    assert any(f.is_error for f in found) is (name not in SILENT or how == "renamed")
