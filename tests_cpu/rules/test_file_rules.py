"""SRC and CFG: planted defects, healthy files, look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.profile import Speculation
from eagle3_checks.rules.base import Facts, run_rule, run_rules
from eagle3_checks.rules.registry import all_rules, by_code
from eagle3_checks.verdict import Finding, Severity, Status

Judge = Callable[..., tuple[Finding, ...]]
Pair = Callable[..., tuple[Path, Path]]
STATIC = [r.code() for r in all_rules() if r.code()[:3] in {"SRC", "CFG", "KEY", "FUS", "VOC"}]


@pytest.mark.parametrize("mla", [False, True])
@pytest.mark.parametrize("code", STATIC)
def test_a_healthy_pair_passes(judge_files: Judge, code: str, mla: bool) -> None:  # noqa: FBT001
    assert [f.status for f in judge_files(code, mla=mla)] == [Status.PASS]


@pytest.mark.parametrize("mla", [False, True])
def test_a_healthy_pair_passes_in_order(
    tmp_path: Path,
    healthy_pair: Pair,
    read_facts: Callable[..., Facts],
    mla: bool,  # noqa: FBT001
) -> None:
    rules = [by_code(code) for code in STATIC]
    findings = run_rules(rules, read_facts(*healthy_pair(tmp_path, mla=mla)))
    assert {f.status for f in findings} == {Status.PASS}


def test_a_truncated_file(tmp_path: Path, healthy_pair: Pair, read_facts: Any) -> None:
    target, drafter = healthy_pair(tmp_path)
    weights = drafter / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    facts = read_facts(target, drafter)
    (finding,) = run_rule(by_code("SRC001"), facts)
    assert finding.is_error
    assert "(100 missing)" in finding.message
    assert "model.safetensors again" in finding.fix
    skipped = run_rules([by_code(c) for c in ("SRC001", "KEY001", "FUS001")], facts)[1:]
    assert {(f.status, f.message) for f in skipped} == {(Status.SKIP, "SRC001 failed")}


def test_pickle_alone(tmp_path: Path, healthy_pair: Pair, read_facts: Any) -> None:
    target, drafter = healthy_pair(tmp_path)
    (drafter / "model.safetensors").rename(drafter / "pytorch_model.bin")
    facts = read_facts(target, drafter)
    (finding,) = run_rule(by_code("SRC004"), facts)
    assert finding.is_error
    assert "safetensors.torch" in finding.fix
    assert [f.status for f in run_rule(by_code("SRC001"), facts)] == [Status.SKIP]


def test_pickle_beside_safetensors_is_healthy(
    tmp_path: Path, healthy_pair: Pair, read_facts: Any
) -> None:
    target, drafter = healthy_pair(tmp_path)
    (drafter / "pytorch_model.bin").touch()
    assert run_rule(by_code("SRC004"), read_facts(target, drafter))[0].status is Status.PASS


def test_a_drafter_config_of_the_wrong_type(judge_files: Judge) -> None:
    (finding,) = judge_files("SRC002", draft={"hidden_size": "16"})
    assert finding.is_error
    assert finding.message == "config.json: hidden_size is '16'; it must be a whole number"


def test_nulls_in_a_drafter_config_are_healthy(judge_files: Judge) -> None:
    draft = {"eagle_config": None, "num_aux_hidden_states": None, "head_dim": None}
    assert judge_files("SRC002", draft=draft)[0].status is Status.PASS


def test_a_target_without_a_config(tmp_path: Path, healthy_pair: Pair, read_facts: Any) -> None:
    target, drafter = healthy_pair(tmp_path)
    (target / "config.json").unlink()
    (finding,) = run_rule(by_code("SRC003"), read_facts(target, drafter))
    assert finding.is_error
    assert finding.message == "config.json: there is no such file"


@pytest.mark.parametrize(
    ("version", "names", "says"),
    [
        ("0.5.23", ["LlamaForCausalLM"], "architectures is LlamaForCausalLM; SGLang 0.5.23"),
        ("0.5.23", ["Eagle3Speculator"], "architectures is Eagle3Speculator"),
        ("0.5.23", ..., "architectures is missing"),
        ("0.5.11", ["Eagle3DeepseekV2ForCausalLM"], "is served from 0.5.12 on"),
    ],
)
def test_an_architecture_that_is_not_served(
    judge_files: Judge, version: str, names: Any, says: str
) -> None:
    (finding,) = judge_files("CFG001", version, draft={"architectures": names})
    assert finding.is_error
    assert says in finding.message


def test_a_second_architecture_that_is_served_is_healthy(judge_files: Judge) -> None:
    names = ["EagleLlama", "LlamaForCausalLMEagle3"]
    assert judge_files("CFG001", draft={"architectures": names})[0].status is Status.PASS


@pytest.mark.parametrize(
    ("version", "severity"), [("0.5.23", Severity.ERROR), ("0.4.9", Severity.WARNING)]
)
def test_a_context_shorter_than_the_targets(
    judge_files: Judge, version: str, severity: Severity
) -> None:
    (finding,) = judge_files("CFG002", version, draft={"max_position_embeddings": 256})
    assert (finding.status, finding.severity) == (Status.FAIL, severity)
    assert "the drafter's context is 256, the target's 512" in finding.message
    assert "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN" in finding.fix
    assert "SGLANG_IS_IN_CI" in by_code("CFG002").why


@pytest.mark.parametrize(
    ("draft", "target"),
    [
        ({"max_position_embeddings": 4096}, {}),
        ({"max_position_embeddings": 256, "rope_scaling": {"type": "linear", "factor": 2.0}}, {}),
        ({"max_position_embeddings": ...}, {"max_position_embeddings": 2048}),
        (
            {},
            {"max_position_embeddings": 512, "rope_scaling": {"rope_type": "llama3", "factor": 8}},
        ),
        (
            {},
            {
                "rope_scaling": {
                    "type": "yarn",
                    "factor": 4,
                    "original_max_position_embeddings": 128,
                }
            },
        ),
    ],
)
def test_contexts_that_reach(
    judge_files: Judge, draft: dict[str, Any], target: dict[str, Any]
) -> None:
    assert judge_files("CFG002", draft=draft, target=target)[0].status is Status.PASS


def test_a_context_that_scaling_makes_longer(judge_files: Judge) -> None:
    target = {"rope_scaling": {"type": "linear", "factor": 2.0}}
    (finding,) = judge_files("CFG002", target=target)
    assert "the target's 1024" in finding.message


def test_a_target_that_states_no_context(judge_files: Judge) -> None:
    target = {"max_position_embeddings": ...}
    assert judge_files("CFG002", target=target)[0].status is Status.SKIP


@pytest.mark.parametrize("key", ["hidden_size", "draft_vocab_size", "num_hidden_layers"])
def test_a_size_that_is_missing(judge_files: Judge, key: str) -> None:
    (finding,) = judge_files("CFG003", draft={key: ...})
    assert finding.is_error
    assert finding.message.startswith(f"{key} is missing from config.json")


def test_a_draft_vocabulary_of_null_is_healthy(judge_files: Judge) -> None:
    assert judge_files("CFG003", draft={"draft_vocab_size": None})[0].status is Status.PASS


def test_another_algorithm(judge_files: Judge) -> None:
    (finding,) = judge_files("CFG004", speculation=Speculation(algorithm="EAGLE"))
    assert finding.is_error
    assert "speculation.algorithm is EAGLE; LlamaForCausalLMEagle3 needs EAGLE3" in finding.message


def test_the_algorithm_in_small_letters_is_healthy(judge_files: Judge) -> None:
    (finding,) = judge_files("CFG004", speculation=Speculation(algorithm="eagle3"))
    assert finding.status is Status.PASS
