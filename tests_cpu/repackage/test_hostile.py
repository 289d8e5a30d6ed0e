"""No file, however odd, makes planning raise, or a plan that is not kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3_checks.contract.version import known_versions
from eagle3_checks.inspection import inspect
from eagle3_checks.repackage.run import repackage

ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 3, 1 << 70, 1.5, float("inf"), "16", "", [], [1, 2, 3], [{}], [[]], {}]
)
NESTED = st.fixed_dictionaries({"hidden_size": ODD, "vocab_size": ODD, "": ODD, "_x": ODD})
KEYS = st.sampled_from(
    [
        "architectures",
        "model_type",
        "hidden_size",
        "vocab_size",
        "draft_vocab_size",
        "target_hidden_size",
        "tie_word_embeddings",
        "num_aux_hidden_states",
        "eagle_config",
        "eagle_aux_hidden_state_layer_ids",
        "speculators_model_type",
        "transformer_layer_config",
        "quantization_config",
    ]
)
VALUES = st.one_of(
    ODD,
    st.sampled_from([["Eagle3Speculator"], ["LlamaForCausalLM"], "eagle3", "llama", ...]),
    NESTED,
    st.fixed_dictionaries({"eagle_aux_hidden_state_layer_ids": ODD}),
)
NAMES = st.sampled_from(
    [
        "model.fc.weight",
        "a.fc.weight",
        "lm_head.weight",
        "x.lm_head.weight",
        "d2t",
        "model.d2t",
        "layers.0.mlp.up_proj.weight",
        "layers.1.mlp.up_proj.weight",
        "a.b.c.d.e.f.norm.weight",
        "norm.weight",
        "self_attn.",
        "..",
        "",
        "\x1b[31m.norm.weight",
    ]
)
SPECS = st.one_of(
    st.tuples(
        st.sampled_from(["BF16", "I64", "F32"]), st.lists(st.integers(0, 70), max_size=3), st.none()
    ),
    st.just(...),
)


DRAFTERS = st.fixed_dictionaries(
    {
        "draft": st.dictionaries(KEYS, VALUES, max_size=4),
        "tensors": st.dictionaries(NAMES, SPECS, max_size=4),
        "layer": st.sampled_from(["midlayer", "layers.0", "x"]),
    }
)


@settings(max_examples=60)
@given(pair=DRAFTERS, version=st.sampled_from(known_versions()))
def test_any_drafter_is_planned(
    tmp_path_factory: pytest.TempPathFactory,
    healthy_pair: Callable[..., tuple[Path, Path]],
    pair: dict[str, Any],
    version: str,
) -> None:
    folder = tmp_path_factory.mktemp("odd")
    target, drafter = healthy_pair(folder, **pair)
    result = inspect(str(drafter), str(target), version)
    outcome = repackage(str(drafter), folder / "out", target=str(target), sglang=version)
    assert outcome.written == (folder / "out").exists()
    promised = [f for f in result["findings"] if "eagle3-checks repackage IN OUT" in f["fix"]]
    left = {(f.code, f.message) for f in outcome.after if f.is_error}
    assert not promised or outcome.written
    assert not left & {(f["code"], f["message"]) for f in promised}
