"""Counts by every version's names.

recorded_answers.json holds one request's ``meta_info``: for 0.5.23 as a real server gave it, for
the others as ``_calculate_spec_decoding_metrics`` of their wheels writes the same counts; and an
answer that took no verify step.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from eagle3_checks.contract.version import contract_for, known_versions
from eagle3_checks.measure.client import Answer
from eagle3_checks.measure.counts import contradictions, own_figures, sample, unreported
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.profile import Speculation

RECORDED = json.loads(Path(__file__).with_name("recorded_answers.json").read_text())
FROM_0_5_4 = [v for v in known_versions() if Version(v) >= Version("0.5.4")]
PROMPT = Prompt(id="p", set="s", text="x")


def recorded(version: str, which: str) -> Answer:
    """Return the answer of the newest recorded version that is not newer."""
    # 0.5.5.post3 already reports by the names that 0.5.6 was recorded with.
    asked = "0.5.6" if version == "0.5.5.post3" else version
    era = max((v for v in RECORDED if Version(v) <= Version(asked)), key=Version)
    meta: dict[str, Any] = RECORDED[era][which]
    return Answer(prompt=PROMPT, text="", meta=meta)


@pytest.mark.parametrize("version", FROM_0_5_4)
def test_the_same_request_gives_the_same_counts_in_every_version(version: str) -> None:
    names, answer = contract_for(version).meta, recorded(version, "answer")
    got = sample(answer, names, Speculation())
    assert (got.verify_steps, got.correct_drafts, got.proposed_drafts) == (76, 179, 228)
    assert got.completion_tokens == 1 + got.verify_steps + got.correct_drafts
    old = Version(version) < Version("0.5.9")
    assert got.histogram == (None if old else (10, 8, 3, 55))
    assert list(contradictions(got, Speculation())) == []
    assert list(own_figures(got, answer.meta, names)) == []


@pytest.mark.parametrize("version", FROM_0_5_4)
def test_no_verify_step_counts_as_none(version: str) -> None:
    names, answer = contract_for(version).meta, recorded(version, "no_verify_step")
    got = sample(answer, names, Speculation())
    assert (got.verify_steps, got.correct_drafts, got.proposed_drafts) == (0, 0, 0)
    assert list(own_figures(got, answer.meta, names)) == []


@pytest.mark.parametrize("version", FROM_0_5_4)
def test_every_key_that_is_read_was_recorded(version: str) -> None:
    contract, meta = contract_for(version), recorded(version, "answer").meta
    names = contract.meta
    read = (names.verify, names.correct, names.proposed, names.histogram, names.accept_rate)
    assert {name for name in read if name} <= meta.keys() & set(contract.meta_info_keys)


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("0.4.9", ["completion tokens - 1 - verify steps", "no histogram"]),
        ("0.5.4", ["spec_accept_rate x verify steps x steps", "no histogram"]),
        ("0.5.6", ["no histogram of correct drafts (0.5.9 is the first)"]),
        ("0.5.9", []),
        ("0.5.23", []),
    ],
)
def test_a_version_too_old_for_a_figure_says_so(version: str, says: list[str]) -> None:
    found = list(unreported(contract_for(version).meta, version))
    assert len(found) == len(says)
    for expected, text in zip(says, found, strict=True):
        assert expected in text
        assert f"SGLang {version} reports no" in text


def test_before_0_5_4_the_tokens_tell() -> None:
    answer = recorded("0.5.4", "answer")
    meta = {k: v for k, v in answer.meta.items() if "accept" not in k}
    got = sample(
        Answer(prompt=PROMPT, text="", meta=meta), contract_for("0.4.9").meta, Speculation()
    )
    assert (got.verify_steps, got.correct_drafts) == (76, 179)


@pytest.mark.parametrize(
    ("version", "changes", "expected"),
    [
        (
            "0.5.23",
            {"spec_accept_length": 3.0},
            "is 3.0, but 256 tokens / 76 verify steps = 3.3684",
        ),
        ("0.5.6", {"spec_accept_rate": 0.5}, "0.5, but 179 correct drafts / 228 proposed = 0.7851"),
    ],
)
def test_ratios_that_do_not_follow_from_the_counts(
    version: str, changes: dict[str, float], expected: str
) -> None:
    names, answer = contract_for(version).meta, recorded(version, "answer")
    found = list(
        own_figures(sample(answer, names, Speculation()), {**answer.meta, **changes}, names)
    )
    assert len(found) == 1
    assert expected in found[0]
