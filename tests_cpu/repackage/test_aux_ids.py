"""Aux layer ids at the top level: moved where their meaning and SGLang's are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.checkpoint import read_draft_config, read_target_config
from eagle3_checks.contract.capture import Capture, resolve_capture
from eagle3_checks.contract.version import contract_for
from eagle3_checks.repackage.run import Outcome
from tests_cpu.repackage.conftest import Rebuild

KEY = "eagle_aux_hidden_state_layer_ids"
SPECULATORS = {"speculators_config": {"algorithm": "eagle3"}}


Move = Callable[..., Outcome]


@pytest.fixture
def move(
    tmp_path: Path,
    broken: Callable[..., Path],
    rebuild: Rebuild,
    healthy_config: Callable[..., dict[str, Any]],
) -> Move:
    """Return `move(config, architecture)`: repackages for a target of that class, 61 layers."""

    def run(config: dict[str, Any], architecture: str | None) -> Outcome:
        folder = tmp_path / "target"
        folder.mkdir()
        told = healthy_config("target", architectures=[architecture], num_hidden_layers=61)
        (folder / "config.json").write_text(json.dumps(told))
        return rebuild(broken(config), target=str(folder) if architecture else "")

    return run


def written(tmp_path: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((tmp_path / "out" / "config.json").read_text())
    return config


@pytest.mark.parametrize(
    "architecture",
    [
        "LlamaForCausalLM",  # adds one
        "Qwen3MoeForCausalLM",
        "DeepseekV3ForCausalLM",  # adds one where the first is 1
        "GptOssForCausalLM",  # adds one unless the last is the number of layers
    ],
)
def test_the_states_captured_are_those_of_the_training(
    move: Move, tmp_path: Path, architecture: str
) -> None:
    outcome = move({**SPECULATORS, KEY: [2, 20, 50]}, architecture)
    assert outcome.written, outcome.refusals
    assert written(tmp_path)["eagle_config"][KEY] == [1, 19, 49]
    assert KEY not in written(tmp_path)
    draft, target = read_draft_config(tmp_path / "out"), read_target_config(tmp_path / "target")
    seen = resolve_capture(draft, target, contract_for("0.5.23"))
    assert isinstance(seen, Capture)
    assert seen.boundaries == (2, 20, 50)


def test_ids_that_a_class_takes_as_they_are(move: Move, tmp_path: Path) -> None:
    config = {**SPECULATORS, KEY: [5, 20, 50], "eagle_config": {"x": 1}}
    assert move(config, "DeepseekV3ForCausalLM").written
    assert written(tmp_path)["eagle_config"] == {"x": 1, KEY: [5, 20, 50]}


@pytest.mark.parametrize(
    ("config", "architecture", "says"),
    [
        ({KEY: [2, 20, 50]}, "LlamaForCausalLM", "may number the states that enter a layer"),
        ({**SPECULATORS, KEY: [2, 20, 50]}, None, "depends on the target's class"),
        ({**SPECULATORS, KEY: [2, 20, 61]}, "LlamaForCausalLM", "no ids make LlamaForCausalLM"),
        ({**SPECULATORS, KEY: [2, 20, 20]}, "LlamaForCausalLM", "no ids make LlamaForCausalLM"),
        ({**SPECULATORS, KEY: [2, 20, 50]}, "UnheardOfForCausalLM", "no class of its own"),
    ],
)
def test_a_guess_is_refused(
    move: Move, config: dict[str, Any], architecture: str | None, says: str
) -> None:
    outcome = move(config, architecture)
    assert not outcome.written
    assert says in outcome.refusals[0].why


@pytest.mark.parametrize(
    "config",
    [
        {KEY: [1, 2, 3], "eagle_config": {KEY: [1, 2, 3]}},
        {**SPECULATORS, KEY: [2, 30, 58]},  # the default, as what enters the layers
        {KEY: [2, 30, 58]},
        {KEY: [1, 29, 57]},  # the default, as what leaves them
    ],
)
def test_ids_that_mean_what_is_captured_are_left_alone(move: Move, config: dict[str, Any]) -> None:
    outcome = move(config, "LlamaForCausalLM")
    assert outcome.written
    assert outcome.changes == ()
