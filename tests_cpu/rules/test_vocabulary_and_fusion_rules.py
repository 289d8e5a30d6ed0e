"""FUS and VOC: planted defects, healthy files, look-alikes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.rules.base import Facts, run_rule
from eagle3_checks.rules.registry import by_code
from eagle3_checks.verdict import Finding, Severity, Status

Judge = Callable[..., tuple[Finding, ...]]
IDS = "eagle_aux_hidden_state_layer_ids"
NO_AUX = {"eagle_config": {"use_aux_hidden_state": False}}


def weight(*shape: int) -> tuple[str, tuple[int, ...], None]:
    return "BF16", shape, None


def offsets(*values: int) -> tuple[str, tuple[int, ...], bytes]:
    return "I64", (len(values),), struct.pack(f"<{len(values)}q", *values)


def mask(*kept: int) -> tuple[str, tuple[int, ...], bytes]:
    return "BOOL", (128,), bytes(i in kept for i in range(128))


def test_fc_of_another_width(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS001", tensors={"fc.weight": weight(16, 16)})
    assert finding.is_error
    assert finding.message == (
        "fc.weight is [16, 16]; SGLang builds [16, 48] = 3 aux states x target hidden 16"
    )
    assert "fuses a single state" in finding.fix


def test_the_message_for_a_wide_target(
    tmp_path: Path,
    healthy_pair: Callable[..., tuple[Path, Path]],
    read_facts: Callable[..., Facts],
) -> None:
    sizes = {"hidden_size": 7168, "num_attention_heads": 64, "head_dim": 128}
    facts = read_facts(*healthy_pair(tmp_path, draft=sizes))
    assert facts.manifest is not None
    narrow = replace(facts.manifest.tensors["fc.weight"], shape=(7168, 7168))
    manifest = replace(facts.manifest, tensors={"fc.weight": narrow})
    (finding,) = run_rule(by_code("FUS001"), replace(facts, manifest=manifest))
    assert finding.message == (
        "fc.weight is [7168, 7168]; SGLang builds [7168, 21504] = 3 aux states x target hidden 7168"
    )


def test_fc_of_more_states_names_the_ids(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS001", tensors={"fc.weight": weight(16, 80)})
    assert "fuses 5 states: state the 5 layer ids" in finding.fix


@pytest.mark.parametrize(
    "draft",
    [{"eagle_config": {IDS: [0, 1, 2, 3, 4]}}, {"num_aux_hidden_states": 5}],
)
def test_fc_of_five_stated_states_is_healthy(judge_files: Judge, draft: dict[str, Any]) -> None:
    (finding,) = judge_files("FUS001", draft=draft, tensors={"fc.weight": weight(16, 80)})
    assert (finding.status, finding.message) == (
        Status.PASS,
        "fc.weight is [16, 80] = 5 aux states x target hidden 16",
    )


def test_fc_that_is_missing(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS002", tensors={"fc.weight": ...})
    assert finding.is_error
    assert "fc.weight is missing; SGLang builds [16, 48]" in finding.message
    assert judge_files("FUS001", tensors={"fc.weight": ...})[0].status is Status.SKIP


@pytest.mark.parametrize("code", ["FUS002", "FUS003", "FUS005"])
def test_a_drafter_without_aux_states_is_skipped(judge_files: Judge, code: str) -> None:
    (finding,) = judge_files(code, draft=NO_AUX, tensors={"fc.weight": ...})
    assert finding.status is Status.SKIP


def test_a_fused_width_like_the_embeddings(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS003", draft={"num_aux_hidden_states": 1})
    assert finding.is_error
    assert "16 wide = 1 aux state x target hidden 16, which equals hidden_size 16" in (
        finding.message
    )


def test_one_state_of_another_width_is_healthy(judge_files: Judge) -> None:
    draft = {"num_aux_hidden_states": 1, "target_hidden_size": 32}
    assert judge_files("FUS003", draft=draft)[0].status is Status.PASS


def test_a_target_of_another_width(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS004", target={"hidden_size": 32})
    assert finding.is_error
    assert "the drafter's hidden_size is 16; the target's hidden_size is 32" in finding.message


def test_a_drafter_narrower_than_its_target_is_healthy(judge_files: Judge) -> None:
    draft, target = {"target_hidden_size": 32}, {"hidden_size": 32}
    assert judge_files("FUS004", draft=draft, target=target)[0].status is Status.PASS


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        (5, "default for 5 layers: 2, 2, 2, so 1 state of 3 arrives: fc is skipped in silence"),
        (2, "default for 2 layers: 2, 1, -1, so 1 state of 3 arrives: fc is skipped in silence"),
        (4, "default for 4 layers: 2, 2, 1, so 2 states of 3 arrive: fc is handed another width"),
        (6, "default for 6 layers: 2, 3, 3, so 2 states of 3 arrive: fc is handed another width"),
    ],
)
def test_default_layers_that_collapse(judge_files: Judge, layers: int, says: str) -> None:
    (finding,) = judge_files("FUS005", target={"num_hidden_layers": layers})
    assert finding.is_error
    assert finding.message == says


@pytest.mark.parametrize("layers", [3, 7, 61])
def test_default_layers_that_are_distinct(judge_files: Judge, layers: int) -> None:
    assert judge_files("FUS005", target={"num_hidden_layers": layers})[0].status is Status.PASS


def test_stated_layers_save_a_shallow_target(judge_files: Judge) -> None:
    draft = {"eagle_config": {IDS: [0, 1, 2]}}
    (finding,) = judge_files("FUS005", draft=draft, target={"num_hidden_layers": 5})
    assert finding.status is Status.PASS


def test_stated_layers_that_repeat(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS005", draft={"eagle_config": {IDS: [1, 3, 3]}})
    assert "aux layer ids: 1, 3, 3, so 2 states of 3 arrive" in finding.message


@pytest.mark.parametrize(
    ("tensors", "draft", "says"),
    [
        ({"d2t": ...}, {}, "d2t is missing: draft_vocab_size 64 is below vocab_size 128"),
        ({"d2t": offsets(*[0] * 60)}, {}, "d2t is [60]; draft_vocab_size is 64"),
        ({}, {"draft_vocab_size": 32}, "d2t is [64]; draft_vocab_size is 32"),
        ({}, {"draft_vocab_size": None}, "d2t is [64]; draft_vocab_size is 128"),
    ],
)
def test_sizes_of_the_mapping(
    judge_files: Judge, tensors: dict[str, Any], draft: dict[str, Any], says: str
) -> None:
    (finding,) = judge_files("VOC001", tensors=tensors, draft=draft)
    assert finding.is_error
    assert says in finding.message


def test_a_t2d_for_another_vocabulary_is_a_warning(judge_files: Judge) -> None:
    (finding,) = judge_files("VOC001", tensors={"t2d": ("BOOL", (100,), None)})
    assert (finding.status, finding.severity) == (Status.FAIL, Severity.WARNING)


def test_a_whole_vocabulary_needs_no_mapping(judge_files: Judge) -> None:
    tensors = {"d2t": ..., "t2d": ..., "lm_head.weight": weight(128, 16)}
    (finding,) = judge_files("VOC001", draft={"draft_vocab_size": 128}, tensors=tensors)
    assert (finding.status, finding.message) == (Status.PASS, "128 of 128 ids, no d2t needed")


def test_the_oldest_versions_stop_without_a_mapping(judge_files: Judge) -> None:
    draft, tensors = {"draft_vocab_size": 128}, {"d2t": ..., "t2d": ...}
    (finding,) = judge_files("VOC001", "0.4.8", draft=draft, tensors=tensors)
    assert finding.message == "d2t is missing; SGLang 0.4.8 stops without one"


def test_zeros_that_t2d_contradicts(judge_files: Judge) -> None:
    (finding,) = judge_files("VOC002", tensors={"d2t": ("I64", (64,), None)})
    assert finding.is_error
    assert finding.message == (
        "d2t is all zero: draft ids 0 to 63 stand for target ids 0 to 63 of 128; "
        "t2d keeps 64 ids, and not these"
    )


def test_zeros_beside_a_t2d_that_was_never_loaded(judge_files: Judge) -> None:
    tensors = {"d2t": ("I64", (64,), None), "t2d": mask(*range(128))}
    (finding,) = judge_files("VOC002", tensors=tensors)
    assert finding.is_error
    assert "t2d keeps 128 ids" in finding.message


def test_zeros_without_a_t2d_are_a_warning(judge_files: Judge) -> None:
    (finding,) = judge_files("VOC002", tensors={"d2t": ("I64", (64,), None), "t2d": ...})
    assert (finding.status, finding.severity) == (Status.FAIL, Severity.WARNING)


def test_zeros_that_are_right(judge_files: Judge) -> None:
    tensors = {"d2t": ("I64", (128,), None), "t2d": mask(*range(128))}
    (finding,) = judge_files("VOC002", tensors=tensors, draft={"draft_vocab_size": 128})
    assert finding.status is Status.PASS
    assert finding.message.startswith("all zero, and right")


def test_absolute_ids_stored_as_offsets(judge_files: Judge) -> None:
    (finding, *_) = judge_files("VOC003", tensors={"d2t": offsets(*range(64, 128))})
    assert finding.is_error
    assert "draft id 32 to 32 + 96 = 128; vocab_size is 128" in finding.message
    assert "look like target ids stored in place of offsets" in finding.message


def test_two_draft_ids_for_one_token(judge_files: Judge) -> None:
    (finding,) = judge_files("VOC003", tensors={"d2t": offsets(3, 2, *[3] * 62)})
    assert finding.message == "d2t sends 1 of 64 draft ids to a target id that has one"


def test_a_mapping_of_floats(judge_files: Judge) -> None:
    (finding,) = judge_files("VOC003", tensors={"d2t": ("BF16", (64,), None)})
    assert finding.is_error
    assert "d2t is BF16; it must hold whole numbers" in finding.message


def test_a_t2d_that_disagrees_is_a_warning(judge_files: Judge) -> None:
    (finding,) = judge_files("VOC003", tensors={"t2d": mask(*range(64))})
    assert (finding.status, finding.severity) == (Status.FAIL, Severity.WARNING)
    assert "3 target ids of d2t are not kept by t2d, as 64, 65, 66" in finding.message


def test_a_mapping_in_the_order_of_frequency_is_healthy(judge_files: Judge) -> None:
    targets = [100, 3, *range(10, 72)]
    d2t = offsets(*(target - i for i, target in enumerate(targets)))
    (finding,) = judge_files("VOC003", tensors={"d2t": d2t, "t2d": ...})
    assert finding.status is Status.PASS
