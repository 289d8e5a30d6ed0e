"""FUS005 to FUS011: planted defects, healthy configs, look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eagle3_checks.verdict import Finding, Severity, Status

Judge = Callable[..., tuple[Finding, ...]]
IDS = "eagle_aux_hidden_state_layer_ids"
KIMI = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "text_config": {"hidden_size": 16, "num_hidden_layers": 61, "vocab_size": 128},
}
RULES = [f"FUS{number:03}" for number in range(5, 12)]


def stated(*ids: int, **draft: Any) -> dict[str, Any]:
    return {"eagle_config": {IDS: list(ids)}, **draft}


def layers(depth: int, name: str = "LlamaForCausalLM", **more: Any) -> dict[str, Any]:
    return {"architectures": [name], "num_hidden_layers": depth, **more}


def kinds(findings: tuple[Finding, ...]) -> set[tuple[Status, Severity]]:
    return {(f.status, f.severity) for f in findings}


@pytest.mark.parametrize(
    ("draft", "target", "version"),
    [
        # Trainers that count outputs of layers, on classes that add one.
        ({}, {}, "0.5.23"),
        (stated(1, 15, 28), layers(32), "0.5.23"),
        (stated(1, 15, 28), layers(32), "0.5.9"),
        (stated(1, 17, 33), layers(36, "GptOssForCausalLM", model_type="gpt_oss"), "0.5.23"),
        (stated(24, 30, 36), layers(36, "GptOssForCausalLM", model_type="gpt_oss"), "0.5.23"),
        (stated(5, 17, 29), layers(30, "Gemma4ForConditionalGeneration"), "0.5.23"),
        (stated(4, 20, 40), layers(45, "MiniMaxM2ForCausalLM"), "0.5.23"),
        # Kimi-K2.5 in either counting.
        (stated(2, 30, 58), KIMI, "0.5.23"),
        (stated(1, 29, 57), KIMI, "0.5.23"),
        (stated(1, 29, 57), KIMI, "0.5.12"),
        # Five states.
        (stated(1, 8, 15, 22, 28), layers(32), "0.5.23"),
        # Speculators' ids at the top level, which are the default.
        ({IDS: [2, 16, 29]}, layers(32), "0.5.23"),
        ({"eagle_config": None}, layers(32), "0.5.23"),
        ({"eagle_config": {IDS: None, "use_aux_hidden_state": True}}, layers(32), "0.5.23"),
    ],
)
def test_healthy_layers(
    judge_files: Judge, draft: dict[str, Any], target: dict[str, Any], version: str
) -> None:
    for code in RULES:
        findings = judge_files(code, version, draft=draft, target=target)
        assert all(f.status is not Status.FAIL for f in findings), findings


@pytest.mark.parametrize("code", RULES)
def test_a_drafter_without_aux_states_is_skipped(judge_files: Judge, code: str) -> None:
    draft = {"eagle_config": {"use_aux_hidden_state": None}}
    (finding,) = judge_files(code, draft=draft, target=layers(5))
    assert finding.status is Status.SKIP
    assert "use_aux_hidden_state is null" in finding.message


def test_doubles_that_stop_the_server(judge_files: Judge) -> None:
    target = layers(61, "DeepseekV3ForCausalLM")
    (finding,) = judge_files("FUS005", draft=stated(2, 30, 30), target=target)
    assert finding.is_error
    assert "so 2 states of 3 arrive: it stops at the first request (captured 2 of 3" in (
        finding.message
    )


def test_an_empty_list_captures_nothing(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS005", draft=stated())
    assert finding.is_error
    assert "0 states of 3 arrive" in finding.message


def test_what_the_default_captures_is_told(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS005", target=KIMI)
    assert finding.message == "default for 61 layers: 2, 30, 58"
    assert finding.evidence == {"boundaries": [2, 30, 58]}


def test_a_class_that_cannot_capture_yet(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS006", "0.5.9", target=KIMI)
    assert finding.is_error
    assert finding.message == (
        "the target's KimiK25ForConditionalGeneration of SGLang 0.5.9 cannot be told which layers "
        "to capture: the server stops at its start; 0.5.10 can"
    )
    assert finding.fix == "Serve with SGLang 0.5.10 or later."
    assert judge_files("FUS005", "0.5.9", target=KIMI)[0].status is Status.SKIP
    assert judge_files("FUS006", "0.5.10", target=KIMI)[0].status is Status.PASS


def test_a_class_that_no_version_captures_from(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS006", target=layers(48, "KimiK3ForConditionalGeneration"))
    assert finding.is_error
    assert finding.message.endswith("the server stops at its start")


def test_a_class_that_is_told_and_never_looks(judge_files: Judge) -> None:
    target = layers(64, "Qwen3_5ForConditionalGeneration")
    (finding,) = judge_files("FUS006", "0.5.20", target=target)
    assert finding.is_error
    assert "never looks at them: no aux state arrives; 0.5.22 can" in finding.message


def test_a_class_from_elsewhere_is_a_warning(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS006", target=layers(32, "MyOwnForCausalLM"))
    assert (finding.status, finding.severity) == (Status.FAIL, Severity.WARNING)
    assert "no class of its own for MyOwnForCausalLM" in finding.message


@pytest.mark.parametrize(
    ("name", "ids", "says"),
    [
        (
            "LlamaForCausalLM",
            (1, 15, 31),
            "mean the boundaries 2, 16, 32; LlamaForCausalLM of 32 layers captures 0 to 31, so 32",
        ),
        ("Qwen3MoeForCausalLM", (1, 15, 31), "it stops at the start (IndexError"),
        ("DeepseekV3ForCausalLM", (1, 15, 60), "it stops at the first request (captured 2 of 3"),
        ("GptOssForCausalLM", (1, 15, 33), "captures 0 to 32, so 34 never comes"),
    ],
)
def test_layers_that_are_never_reached(
    judge_files: Judge, name: str, ids: tuple[int, ...], says: str
) -> None:
    (finding,) = judge_files("FUS007", draft=stated(*ids), target=layers(32, name))
    assert finding.is_error
    assert says in finding.message
    assert judge_files("FUS005", draft=stated(*ids), target=layers(32, name))[0].status is (
        Status.SKIP
    )


def test_a_surplus_id_that_is_never_reached_is_a_warning(judge_files: Judge) -> None:
    draft = stated(1, 15, 28, 40, num_aux_hidden_states=3)
    (finding,) = judge_files("FUS007", draft=draft, target=layers(32))
    assert (finding.status, finding.severity) == (Status.FAIL, Severity.WARNING)


def test_the_last_layer_of_a_class_that_captures_it(judge_files: Judge) -> None:
    target = layers(32, "GptOssForCausalLM")
    (finding,) = judge_files("FUS007", draft=stated(1, 15, 31), target=target)
    assert finding.status is Status.PASS


def test_ids_at_the_top_level_are_passed_over(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS008", draft={IDS: [4, 23, 46]}, target=layers(48))
    assert finding.is_error
    assert finding.message == (
        f"the top level's {IDS} is 4, 23, 46, which SGLang 0.5.23 passes over: LlamaForCausalLM "
        "captures its default, the boundaries 2, 24, 45; the ids mean 4, 23, 46 (as what enters "
        "layers) or 5, 24, 47 (as what leaves them)"
    )


@pytest.mark.parametrize("ids", [[2, 24, 45], [1, 23, 44], [45, 24, 2]])
def test_ids_at_the_top_level_that_mean_the_default(judge_files: Judge, ids: list[int]) -> None:
    (finding,) = judge_files("FUS008", draft={IDS: ids}, target=layers(48))
    assert finding.status is Status.PASS
    assert "is passed over; the default is the same" in finding.message


def test_ids_in_both_places_that_differ_are_a_warning(judge_files: Judge) -> None:
    draft = stated(1, 23, 44, **{IDS: [4, 24, 45]})
    (finding,) = judge_files("FUS008", draft=draft, target=layers(48))
    assert (finding.status, finding.severity) == (Status.FAIL, Severity.WARNING)
    assert "at the top level is 4, 24, 45" in finding.message
    draft = stated(1, 23, 44, **{IDS: [2, 24, 45]})
    assert judge_files("FUS008", draft=draft, target=layers(48))[0].status is Status.PASS


def test_an_empty_list_at_the_top_level_states_nothing(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS008", draft={IDS: []})
    assert finding.status is Status.SKIP


def test_many_ids_are_not_all_shown(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS007", draft=stated(*range(500)), target=layers(32))
    assert "and 484 more" in finding.message
    assert len(finding.message) < 600


def test_the_oldest_versions_pass_all_ids_over(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS008", "0.4.8", draft=stated(4, 15, 28), target=layers(32))
    assert finding.is_error
    assert finding.fix == "Serve with SGLang 0.4.9 or later."


@pytest.mark.parametrize(
    ("draft", "target", "version", "says"),
    [
        (
            stated(2, 16, 29),
            layers(32),
            "0.5.23",
            "which suggests 2, 16, 29 was trained on, and not 3, 17, 30",
        ),
        (stated(2, 15, 30), layers(32), "0.5.23", "a first id of 2 is how what enters layers"),
        (stated(2, 30, 58), KIMI, "0.5.12", "are captured as the boundaries 3, 31, 59"),
        (stated(0, 29, 57), KIMI, "0.5.23", "a first id of 0 is how outputs of layers are counted"),
        (
            stated(5, 17, 29, speculators_config={}),
            layers(32),
            "0.5.23",
            "speculators wrote this config",
        ),
    ],
)
def test_ids_that_look_counted_the_other_way(
    judge_files: Judge, draft: dict[str, Any], target: dict[str, Any], version: str, says: str
) -> None:
    (finding,) = judge_files("FUS009", version, draft=draft, target=target)
    assert (finding.status, finding.severity) == (Status.FAIL, Severity.WARNING)
    assert says in finding.message


def test_the_ids_that_would_be_right(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS009", draft=stated(2, 16, 29), target=layers(32))
    assert "state 1, 15, 28 in eagle_config" in finding.fix
    # No ids make a class that adds one to a first id of 1 capture from boundary 1 on.
    (finding,) = judge_files("FUS009", draft=stated(0, 29, 57), target=KIMI)
    assert finding.fix.startswith("State the ids so that")


@pytest.mark.parametrize("ids", [(5, 17, 29), (4, 20, 28), (3, 16, 29)])
def test_ids_that_tell_nothing_are_not_suspected(judge_files: Judge, ids: tuple[int, ...]) -> None:
    (finding,) = judge_files("FUS009", draft=stated(*ids), target=layers(32))
    assert finding.status is Status.PASS


def test_graphs_that_lose_the_ids(judge_files: Judge) -> None:
    (finding,) = judge_files("FUS010", "0.5.9", draft=stated(4, 15, 28), target=layers(32))
    assert (finding.status, finding.severity) == (Status.FAIL, Severity.WARNING)
    assert finding.message == (
        "aux layer ids: 4, 15, 28 mean the boundaries 5, 16, 29; with CUDA graphs SGLang 0.5.9 "
        "hands over 2, 16, 29 after each verification"
    )
    assert finding.fix == "Serve with SGLang 0.5.11 or later, or with --disable-cuda-graph."


def test_marks_of_the_default_that_stay(judge_files: Judge) -> None:
    target = layers(32, "Qwen3MoeForCausalLM")
    (finding,) = judge_files("FUS010", "0.5.9", draft=stated(4, 15, 28), target=target)
    assert finding.message.endswith("after each verification, and 2, 5, 16, 29 at the prompt")


@pytest.mark.parametrize(
    ("version", "draft", "status"),
    [
        ("0.5.11", stated(4, 15, 28), Status.PASS),
        ("0.5.9", stated(1, 15, 28), Status.PASS),
        ("0.5.9", {}, Status.SKIP),
    ],
)
def test_graphs_that_keep_the_ids(
    judge_files: Judge, version: str, draft: dict[str, Any], status: Status
) -> None:
    (finding,) = judge_files("FUS010", version, draft=draft, target=layers(32))
    assert finding.status is status


def test_a_family_that_is_trained_on_other_layers(judge_files: Judge) -> None:
    target = layers(24, "GptOssForCausalLM", model_type="gpt_oss")
    (finding,) = judge_files("FUS011", target=target)
    assert (finding.status, finding.severity) == (Status.FAIL, Severity.WARNING)
    assert finding.message == (
        "no layer ids are stated: SGLang captures the boundaries 2, 12, 21; SpecForge trains "
        "drafters of gpt_oss with 24 layers on 2, 12, 22"
    )
    assert "state 1, 11, 21" in finding.fix
    assert judge_files("FUS011", target=layers(24))[0].status is Status.PASS


def test_a_default_of_its_own_is_told(judge_files: Judge) -> None:
    target = layers(60, "MiniMaxM3SparseForConditionalGeneration")
    (finding,) = judge_files("FUS011", target=target)
    assert (finding.status, finding.severity) == (Status.FAIL, Severity.INFO)
    assert "captures the boundaries 3, 31, 58, each one above" in finding.message


def test_a_depth_that_is_not_stated_is_a_reason_to_skip(judge_files: Judge) -> None:
    for code in RULES:
        (finding,) = judge_files(code, target={"num_hidden_layers": ...})
        assert finding.status is Status.SKIP
        assert "states no num_hidden_layers" in finding.message


def test_ids_that_are_no_numbers_are_a_reason_to_skip(judge_files: Judge) -> None:
    for code in RULES:
        (finding,) = judge_files(code, draft={"eagle_config": {IDS: "2, 3"}})
        assert finding.status is Status.SKIP
