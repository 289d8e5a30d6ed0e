"""Which boundaries of the target are captured: by class, version and config."""

from __future__ import annotations

from typing import Any

import pytest

from eagle3_checks.contract.capture import (
    AUX_IDS,
    CANNOT,
    Capture,
    CaptureRule,
    NoCapture,
    capture_rule,
    captures_aux,
    first_capturing,
    resolve_capture,
)
from eagle3_checks.contract.version import ContractError, contract_for, known_versions
from eagle3_checks.facts import DraftConfig, TargetConfig

KIMI = "KimiK25ForConditionalGeneration"


def drafter(eagle: Any = None, **raw: Any) -> DraftConfig:
    if eagle is not None:
        raw["eagle_config"] = eagle
    ids = eagle.get(AUX_IDS) if isinstance(eagle, dict) else None
    stated = tuple(ids) if isinstance(ids, list) else None
    return DraftConfig(source="drafter", raw=raw, aux_layer_ids=stated)


def target(name: str = "LlamaForCausalLM", depth: int | None = 32) -> TargetConfig:
    return TargetConfig(source="target", raw={}, architectures=(name,), num_hidden_layers=depth)


def captured(
    ids: list[int] | None,
    name: str = "LlamaForCausalLM",
    depth: int = 32,
    version: str = "0.5.23",
) -> Capture:
    eagle = None if ids is None else {AUX_IDS: ids}
    found = resolve_capture(drafter(eagle), target(name, depth), contract_for(version))
    assert isinstance(found, Capture)
    return found


@pytest.mark.parametrize(
    ("name", "ids", "depth", "boundaries"),
    [
        # Always one more: id i is what layer i puts out.
        ("LlamaForCausalLM", [1, 15, 28], 32, (2, 16, 29)),
        ("LlamaForCausalLM", [2, 16, 29], 32, (3, 17, 30)),
        ("Qwen3ForCausalLM", [1, 17, 32], 36, (2, 18, 33)),
        ("Qwen3MoeForCausalLM", [1, 46, 90], 94, (2, 47, 91)),
        ("Gemma3ForConditionalGeneration", [1, 30, 58], 62, (2, 31, 59)),
        ("Llama4ForConditionalGeneration", [1, 23, 44], 48, (2, 24, 45)),
        # One more only where the first id is 1.
        (KIMI, [2, 30, 58], 61, (2, 30, 58)),
        (KIMI, [1, 29, 57], 61, (2, 30, 58)),
        ("DeepseekV3ForCausalLM", [1, 29, 57], 61, (2, 30, 58)),
        ("DeepseekV3ForCausalLM", [5, 29, 57], 61, (5, 29, 57)),
        ("Glm4MoeLiteForCausalLM", [2, 23, 44], 47, (2, 23, 44)),
        # One more unless the largest id is the number of layers.
        ("GptOssForCausalLM", [1, 17, 33], 36, (2, 18, 34)),
        ("GptOssForCausalLM", [24, 30, 36], 36, (24, 30, 36)),
        # In ascending order, however they are written.
        ("LlamaForCausalLM", [28, 1, 15], 32, (2, 16, 29)),
    ],
)
def test_stated_ids(name: str, ids: list[int], depth: int, boundaries: tuple[int, ...]) -> None:
    assert captured(ids, name, depth).boundaries == boundaries


@pytest.mark.parametrize(
    ("depth", "boundaries"),
    [(1, (0,)), (2, (1,)), (3, (0, 1, 2)), (4, (1, 2)), (5, (2,)), (6, (2, 3)), (7, (2, 3, 4))],
)
def test_the_default_of_shallow_targets(depth: int, boundaries: tuple[int, ...]) -> None:
    assert captured(None, depth=depth).boundaries == boundaries


@pytest.mark.parametrize(
    ("name", "depth", "boundaries"),
    [
        ("LlamaForCausalLM", 32, (2, 16, 29)),
        (KIMI, 61, (2, 30, 58)),
        ("GptOssForCausalLM", 24, (2, 12, 21)),
        # The wrapper adds one to its default too.
        ("MiniMaxM3SparseForConditionalGeneration", 60, (3, 31, 58)),
        ("MiniMaxM3SparseForCausalLM", 60, (2, 30, 57)),
    ],
)
def test_the_default(name: str, depth: int, boundaries: tuple[int, ...]) -> None:
    seen = captured(None, name, depth)
    assert (seen.boundaries, seen.stated) == (boundaries, None)


@pytest.mark.parametrize(
    ("eagle", "boundaries"),
    [
        ({AUX_IDS: None}, (2, 16, 29)),
        ({}, (2, 16, 29)),
        ({AUX_IDS: []}, ()),
        ("text", (2, 16, 29)),
    ],
)
def test_null_and_empty_ids(eagle: Any, boundaries: tuple[int, ...]) -> None:
    seen = resolve_capture(drafter(eagle), target(), contract_for("0.5.23"))
    assert isinstance(seen, Capture)
    assert seen.boundaries == boundaries


def test_ids_at_the_top_level_do_not_count() -> None:
    draft = drafter(**{AUX_IDS: [1, 2, 3]})
    seen = resolve_capture(draft, target(), contract_for("0.5.23"))
    assert isinstance(seen, Capture)
    assert seen.boundaries == (2, 16, 29)


def test_ids_that_are_no_numbers() -> None:
    with pytest.raises(ContractError, match="must be a list of whole numbers"):
        resolve_capture(
            drafter({AUX_IDS: ["1"]} | {AUX_IDS: "1"}), target(), contract_for("0.5.23")
        )


@pytest.mark.parametrize(
    ("name", "ids", "boundaries", "unreached", "stops"),
    [
        # The last layer's output is past what most classes capture.
        ("LlamaForCausalLM", [1, 15, 31], (2, 16), (32,), ""),
        ("LlamaForCausalLM", [1, 15, 40], (2, 16), (41,), ""),
        ("Gemma3ForCausalLM", [1, 15, 31], (2, 16, 32), (), ""),
        ("GptOssForCausalLM", [1, 15, 31], (2, 16, 32), (), ""),
        ("GptOssForCausalLM", [1, 15, 33], (2, 16), (34,), ""),
        ("Qwen3MoeForCausalLM", [1, 15, 31], (2, 16), (32,), "IndexError"),
        ("DeepseekV3ForCausalLM", [1, 15, 31], (2, 16), (32,), "captured 2 of 3"),
        ("DeepseekV3ForCausalLM", [5, 15, 32], (5, 15), (32,), "captured 2 of 3"),
        # A list counts negative indexes from its end; elsewhere they are never met.
        ("Qwen3MoeForCausalLM", [1, 15, -3], (2, 16, 30), (), ""),
        ("LlamaForCausalLM", [1, 15, -3], (2, 16), (-2,), ""),
    ],
)
def test_ids_out_of_range(
    name: str,
    ids: list[int],
    boundaries: tuple[int, ...],
    unreached: tuple[int, ...],
    stops: str,
) -> None:
    seen = captured(ids, name)
    assert (seen.boundaries, seen.unreached) == (boundaries, unreached)
    assert stops in seen.stops
    assert bool(stops) == bool(seen.stops)


@pytest.mark.parametrize(
    ("name", "stops"), [("LlamaForCausalLM", ""), ("DeepseekV3ForCausalLM", "captured 2 of 3")]
)
def test_doubles_collapse(name: str, stops: str) -> None:
    seen = captured([1, 15, 15], name)
    assert seen.boundaries == (2, 16)
    assert seen.unreached == ()
    assert stops in seen.stops


@pytest.mark.parametrize(
    ("ids", "version", "boundaries"),
    [
        ([2, 30, 58], "0.5.10", (3, 31, 59)),
        ([2, 30, 58], "0.5.12.post1", (3, 31, 59)),
        ([1, 29, 57], "0.5.12.post1", (2, 30, 58)),
        ([2, 30, 58], "0.5.13", (2, 30, 58)),
        ([1, 29, 57], "0.5.13", (2, 30, 58)),
    ],
)
def test_kimi_k25_by_version(ids: list[int], version: str, boundaries: tuple[int, ...]) -> None:
    assert captured(ids, KIMI, 61, version).boundaries == boundaries


@pytest.mark.parametrize(
    ("name", "version", "known", "says"),
    [
        (KIMI, "0.5.8", False, "no class of its own for KimiK25"),
        (KIMI, "0.5.9", True, "cannot be told which layers to capture"),
        ("KimiK3ForConditionalGeneration", "0.5.23", True, "cannot be told which layers"),
        ("KimiVLForConditionalGeneration", "0.5.23", True, "cannot be told which layers"),
        ("Glm4ForCausalLM", "0.5.23", True, "cannot be told which layers"),
        ("MyOwnForCausalLM", "0.5.23", False, "no class of its own for MyOwnForCausalLM"),
    ],
)
def test_classes_that_cannot(name: str, version: str, known: bool, says: str) -> None:  # noqa: FBT001
    seen = resolve_capture(drafter(), target(name, 61), contract_for(version))
    assert isinstance(seen, NoCapture)
    assert (seen.known, seen.target_class, seen.off) == (known, name, False)
    assert says in seen.reason


def test_a_class_that_is_told_and_never_looks() -> None:
    seen = captured(None, "Qwen3_5ForConditionalGeneration", 64, "0.5.21")
    assert seen.rule.nothing
    assert seen.boundaries == ()
    assert captured(None, "Qwen3_5ForConditionalGeneration", 64, "0.5.22").boundaries


@pytest.mark.parametrize(
    ("value", "version", "captures"),
    [
        (False, "0.5.23", False),
        (None, "0.5.23", False),
        (True, "0.5.23", True),
        (False, "0.5.7", True),
    ],
)
def test_drafters_that_take_no_aux_states(
    value: bool | None,  # noqa: FBT001
    version: str,
    captures: bool,  # noqa: FBT001
) -> None:
    draft = drafter({"use_aux_hidden_state": value})
    assert captures_aux(draft, contract_for(version)) is captures
    seen = resolve_capture(draft, target(), contract_for(version))
    assert isinstance(seen, Capture) is captures
    if not captures:
        assert isinstance(seen, NoCapture)
        assert seen.off
        assert f"is {'null' if value is None else 'false'}" in seen.reason


def test_the_oldest_versions_know_the_default_alone() -> None:
    assert captured([1, 2, 3], version="0.4.8").boundaries == (2, 16, 29)


@pytest.mark.parametrize(
    ("name", "version", "ids", "verify", "prefill"),
    [
        ("LlamaForCausalLM", "0.5.9", [4, 15, 28], (2, 16, 29), (5, 16, 29)),
        ("LlamaForCausalLM", "0.5.9", [1, 15, 28], (2, 16, 29), (2, 16, 29)),
        ("LlamaForCausalLM", "0.5.11", [4, 15, 28], (5, 16, 29), (5, 16, 29)),
        ("LlamaForCausalLM", "0.5.9", None, (2, 16, 29), (2, 16, 29)),
        # Marks of the default stay beside those of the stated ids.
        ("Qwen3MoeForCausalLM", "0.5.9", [4, 15, 28], (2, 16, 29), (2, 5, 16, 29)),
    ],
)
def test_what_cuda_graphs_make_of_stated_ids(
    name: str,
    version: str,
    ids: list[int] | None,
    verify: tuple[int, ...],
    prefill: tuple[int, ...],
) -> None:
    seen = captured(ids, name, version=version)
    assert (seen.verify, seen.prefill) == (verify, prefill)
    assert seen.graphs_differ == (verify != seen.boundaries or prefill != seen.boundaries)


def test_a_target_without_a_depth() -> None:
    with pytest.raises(ContractError, match="states no num_hidden_layers"):
        resolve_capture(drafter(), target(depth=None), contract_for("0.5.23"))


def test_the_first_architecture_that_is_served_counts() -> None:
    both = TargetConfig(
        source="target", raw={}, architectures=("Other", KIMI), num_hidden_layers=61
    )
    seen = resolve_capture(drafter(), both, contract_for("0.5.23"))
    assert isinstance(seen, Capture)
    assert seen.target_class == KIMI


def test_the_first_version_that_captures() -> None:
    assert first_capturing(KIMI) == "0.5.10"
    assert first_capturing("Qwen3_5ForConditionalGeneration") == "0.5.22"
    assert first_capturing("KimiVLForConditionalGeneration") is None


@pytest.mark.parametrize("version", known_versions())
def test_every_rule_of_the_data_can_be_read(version: str) -> None:
    for words in contract_for(version).targets.values():
        rule = capture_rule(words)
        assert (rule is None) == (words == CANNOT)


def test_a_rule_in_words() -> None:
    assert capture_rule("next default+1 marks last") == CaptureRule(
        shift="next", default_shift=1, marks=True, last=True
    )
    assert capture_rule("first-1 packed") == CaptureRule(shift="first-1", packed=True)
