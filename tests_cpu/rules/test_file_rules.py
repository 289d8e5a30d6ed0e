"""SRC and CFG: planted defects, healthy files, look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.rules.base import Facts, run_rule, run_rules
from eagle3_checks.rules.registry import all_rules, by_code
from eagle3_checks.verdict import Finding, Severity, Status
from tests_cpu.rules.cases.config import SPECULATORS

Judge = Callable[..., tuple[Finding, ...]]
Pair = Callable[..., tuple[Path, Path]]
STATIC = [r.code() for r in all_rules() if r.code()[:3] in {"SRC", "CFG", "KEY", "FUS", "VOC"}]
UNASKED = {
    "CFG008": "an MLA drafter has no head_dim of its own",
    "CFG015": "needs the server flags of a profile",
    "CFG024": "needs the server flags of a profile",
    "VOC007": "needs the target's tokenizer files (--target)",
}
"""Rules that have nothing to judge in the healthy pair, and what they say."""


def asked(finding: Finding) -> bool:
    """Whether a rule had something to judge; those of capture layers need ids to be stated."""
    silent = finding.status is Status.SKIP and finding.family == "FUS"
    return not silent and UNASKED.get(finding.code) != finding.message


@pytest.mark.parametrize("mla", [False, True])
@pytest.mark.parametrize("code", STATIC)
def test_a_healthy_pair_passes(judge_files: Judge, code: str, mla: bool) -> None:  # noqa: FBT001
    (finding,) = judge_files(code, mla=mla)
    assert finding.status is Status.PASS or not asked(finding), finding.message


@pytest.mark.parametrize("mla", [False, True])
def test_a_healthy_pair_passes_in_order(
    tmp_path: Path,
    healthy_pair: Pair,
    read_facts: Callable[..., Facts],
    mla: bool,  # noqa: FBT001
) -> None:
    rules = [by_code(code) for code in STATIC]
    findings = run_rules(rules, read_facts(*healthy_pair(tmp_path, mla=mla)))
    assert not [f.message for f in findings if f.status is not Status.PASS and asked(f)]


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


@pytest.mark.parametrize("name", ["SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "SGLANG_IS_IN_CI"])
def test_a_short_context_names_the_variables(judge_files: Judge, name: str) -> None:
    (finding,) = judge_files("CFG002", draft={"max_position_embeddings": 256})
    assert name in finding.message
    assert name in by_code("CFG002").why


def test_a_model_type_is_guessed_from_the_folders_name(
    tmp_path: Path, healthy_pair: Pair, read_facts: Callable[..., Facts]
) -> None:
    facts = read_facts(*healthy_pair(tmp_path, draft={"model_type": ...}))
    draft = facts.draft
    assert draft is not None
    moved = replace(facts, draft=replace(draft, source="/models/my-llama-drafter"))
    (finding,) = run_rule(by_code("CFG006"), moved)
    assert finding.severity is Severity.WARNING
    assert finding.message == (
        "model_type is missing; transformers guesses llama from the folder's name"
    )


def test_the_form_of_speculators_is_told_with_what_to_do(judge_files: Judge, snapshot: Any) -> None:
    (finding,) = judge_files("CFG005", draft=SPECULATORS)
    assert f"{finding.message}\n{finding.fix}" == snapshot


@pytest.mark.parametrize("key", ["hidden_size", "draft_vocab_size", "num_hidden_layers"])
def test_a_size_that_is_missing(judge_files: Judge, key: str) -> None:
    (finding,) = judge_files("CFG003", draft={key: ...})
    assert finding.is_error
    assert finding.message.startswith(f"{key} is missing from config.json")
