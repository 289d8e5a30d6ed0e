"""No file, however odd, makes a static rule raise or takes it long."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3_checks.checkpoint.scan import scan
from eagle3_checks.contract.version import known_versions
from eagle3_checks.profile import Server
from eagle3_checks.rules.base import STATIC_FACTS, Facts, run_rule
from eagle3_checks.rules.registry import all_rules
from tests_cpu.conftest import draft_tensors, mla_tensors

RULES = [rule for rule in all_rules() if set(rule.needs()) <= STATIC_FACTS]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 200),
    st.sampled_from(
        [10**6, 10**12, 1 << 70, 1.5, float("inf"), "16", "", [], [1, 2], {}, {"a": 1}, [[]]]
    ),
    st.dictionaries(
        st.sampled_from(
            ["rope_type", "type", "factor", "rope_theta", "quant_algo", "quant_method", "fc_norm"]
        ),
        st.none() | st.sampled_from(["yarn", "\x1b", 4.0, -1, [], {}, True, float("nan")]),
        max_size=3,
    ),
)
KEYS = st.sampled_from(
    [
        "architectures",
        "model_type",
        "hidden_size",
        "target_hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "vocab_size",
        "draft_vocab_size",
        "max_position_embeddings",
        "rope_scaling",
        "tie_word_embeddings",
        "num_aux_hidden_states",
        "eagle_config",
        "fc_norm",
        "norm_before_fc",
        "bias",
        "attention_bias",
        "quantization_config",
        "q_lora_rank",
        "torch_dtype",
        "hidden_act",
        "rms_norm_eps",
        "rope_theta",
        "rope_parameters",
        "transformer_layer_config",
        "norm_output",
        "norm_before_residual",
        "eagle_aux_hidden_state_layer_ids",
        "sliding_window",
        "layer_types",
    ]
)
NAMES = st.sampled_from(
    [
        "fc.weight",
        "fc.bias",
        "lm_head.weight",
        "d2t",
        "t2d",
        "midlayer.self_attn.q_proj.weight",
        "midlayer.self_attn.q_proj.bias",
        "layers.0.mlp.up_proj.weight",
        "layers.7.mlp.up_proj.weight",
        "layers.1.input_layernorm.weight",
        "midlayer.mlp.up_proj.weight_scale",
        "fc_norm.0.weight",
        "input_norm.weight",
        "embed_tokens.weight",
        "model.model.norm.weight",
        "self_attn.",
        ".",
        "",
        "\x1b[31m",
    ]
)
SPECS = st.tuples(
    st.sampled_from(["BF16", "F32", "F8_E4M3", "I64", "BOOL"]),
    st.lists(st.integers(0, 70), max_size=3),
    st.none(),
)


HEALTHY = st.sampled_from(sorted({**draft_tensors(), **mla_tensors()}))
FLAGS = ("--context-length", "--dtype", "--quantization", "8", "auto", "awq", "--dtype=half")
PAIRS = st.fixed_dictionaries(
    {
        "draft": st.dictionaries(KEYS, VALUES, max_size=4),
        "target": st.dictionaries(KEYS, VALUES, max_size=3),
        "tensors": st.dictionaries(NAMES, SPECS, max_size=4),
        "mla": st.booleans(),
    }
)
SETTINGS = st.fixed_dictionaries(
    {
        "lost": st.sets(HEALTHY, max_size=3),
        "flags": st.lists(st.sampled_from(FLAGS), max_size=3),
        "version": st.sampled_from(known_versions()),
    }
)


@settings(max_examples=100, deadline=None)
@given(pair=PAIRS, given_=SETTINGS)
def test_any_pair_is_judged(
    tmp_path_factory: pytest.TempPathFactory,
    healthy_pair: Callable[..., tuple[Path, Path]],
    read_facts: Callable[..., Facts],
    pair: dict[str, Any],
    given_: dict[str, Any],
) -> None:
    pair["tensors"] = {**dict.fromkeys(given_["lost"], ...), **pair["tensors"]}
    target, drafter = healthy_pair(tmp_path_factory.mktemp("pair"), **pair)
    facts = read_facts(target, drafter, given_["version"])
    assert facts.manifest is not None
    values = scan(drafter, facts.manifest, target)
    facts = replace(
        facts, values=values, serving=Server(args=tuple(given_["flags"]), device="cuda")
    )
    for rule in RULES:
        findings = run_rule(rule, facts)
        assert findings
        assert all("\x1b" not in f.message + f.fix for f in findings)
        json.dumps([dict(f.evidence) for f in findings])
