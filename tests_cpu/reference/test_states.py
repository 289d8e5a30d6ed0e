"""The target's true states, by transformers' own class."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from eagle3_checks.reference.digest import digest
from eagle3_checks.reference.states import NoReferenceError, true_states
from eagle3_checks.reference.target import load_target
from eagle3_checks.shipped import shipped

TINY = shipped("fixtures", "tiny") / "target"
PROMPT = (1, 2, 3, 4, 5, 6)


def test_what_enters_each_layer_of_the_tiny_target() -> None:
    seen = true_states(TINY, [PROMPT], limit_gib=1)
    assert seen.source.endswith("LlamaForCausalLM")
    model = load_target(TINY)
    with torch.no_grad():
        out = model(input_ids=torch.tensor([PROMPT]), output_hidden_states=True)
    states = seen.states[PROMPT]
    assert set(states) == set(range(9))
    for layer in range(8):
        true = digest(out.hidden_states[layer][0])
        assert states[layer].rows == pytest.approx(true.rows, rel=1e-5, abs=1e-5)
    assert set(seen.outputs[PROMPT]) == set(range(1, 9))
    # What leaves the last layer is not normed yet; transformers' last state is.
    last = digest(out.hidden_states[8][0])
    assert states[8].norm != pytest.approx(last.norm, rel=0.01)


def test_an_output_is_what_a_layer_adds_last() -> None:
    seen = true_states(TINY, [PROMPT], limit_gib=1)
    model = load_target(TINY)
    added: list[torch.Tensor] = []
    model.model.layers[3].mlp.register_forward_hook(lambda *given: added.append(given[2][0]))
    model(input_ids=torch.tensor([PROMPT]))
    true = digest(added[0])
    assert seen.outputs[PROMPT][4].rows == pytest.approx(true.rows, rel=1e-5, abs=1e-5)


def test_what_is_too_large_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(NoReferenceError, match=r"are 0\.0 GiB; true states are computed up to"):
        true_states(TINY, [PROMPT], limit_gib=1e-6)
    with pytest.raises(NoReferenceError, match="no safetensors weights"):
        true_states(tmp_path, [PROMPT], limit_gib=1)


def test_a_class_that_transformers_does_not_have(tmp_path: Path) -> None:
    config = json.loads((TINY / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "no_such_model"}))
    (tmp_path / "model.safetensors").symlink_to(TINY / "model.safetensors")
    with pytest.raises(NoReferenceError, match="transformers cannot load the target: "):
        true_states(tmp_path, [PROMPT], limit_gib=1)
