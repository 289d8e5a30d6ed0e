from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.contract.version import contract_for
from eagle3_checks.measure.acceptance import summarise
from eagle3_checks.measure.client import Answer
from eagle3_checks.measure.counts import contradictions, sample
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.profile import Speculation

CHAIN = Speculation()
TREE = Speculation(steps=3, topk=4, draft_tokens=8)
NAMES = contract_for("0.5.23").meta


def answer(histogram: list[int], **changes: Any) -> Answer:
    steps, correct = sum(histogram), sum(i * h for i, h in enumerate(histogram))
    meta = {
        "prompt_tokens": 9,
        "completion_tokens": 1 + steps + correct,
        "spec_verify_ct": steps,
        "spec_num_correct_drafts": correct,
        "spec_num_proposed_drafts": 3 * steps,
        "spec_correct_drafts_histogram": histogram,
    } | changes
    prompt = Prompt(id="p", set="s", text="x")
    return Answer(prompt=prompt, text="", meta={k: v for k, v in meta.items() if v is not None})


def test_figures_of_a_chain() -> None:
    samples = [sample(answer(h), NAMES, CHAIN) for h in ([5, 3, 1, 1], [4, 2, 2, 2])]
    got = summarise(samples, CHAIN, failed=2)
    assert (got.prompts, got.verify_steps, got.correct_drafts, got.failed_requests) == (
        2,
        20,
        20,
        2,
    )
    assert got.accept_length is not None
    assert got.accept_length.value == pytest.approx(2.0)
    assert got.accept_rate is not None
    assert got.accept_rate.value == pytest.approx(20 / 60)
    assert got.per_position == pytest.approx((11 / 20, 6 / 20, 3 / 20))
    assert got.contradictions == ()
    assert got.missing is None


@given(st.lists(st.lists(st.integers(0, 20), min_size=4, max_size=4), min_size=1, max_size=8))
def test_positions_sum_to_the_correct_drafts(histograms: list[list[int]]) -> None:
    got = summarise([sample(answer(h), NAMES, CHAIN) for h in histograms], CHAIN)
    if got.per_position is None or got.accept_length is None:
        assert got.verify_steps == 0
        return
    assert 1 + sum(got.per_position) == pytest.approx(got.accept_length.value)
    assert list(got.per_position) == sorted(got.per_position, reverse=True)
    assert got.contradictions == ()


def test_a_tree_has_no_positions() -> None:
    meta = {"spec_num_proposed_drafts": 7 * 4}
    got = summarise([sample(answer([1, 1, 1, 1], **meta), NAMES, TREE)], TREE)
    assert got.per_position is None
    assert got.contradictions == ()


def test_zero_verify_steps_is_no_figure() -> None:
    nothing = {key: None for key in answer([1]).meta if key.startswith("spec_")}
    got = summarise([sample(answer([0], **nothing), NAMES, CHAIN)], CHAIN)
    assert got.accept_length is None
    assert got.missing is not None
    assert "without a single verify step" in got.missing
    none = summarise([], CHAIN, failed=3)
    assert none.missing is not None
    assert "no request was answered (3 failed)" in none.missing


def test_a_version_without_counts_is_read_from_the_tokens() -> None:
    old = contract_for("0.5.4").meta
    assert old.correct is None
    got = sample(answer([5, 3, 1, 1]), old, CHAIN)
    assert (got.correct_drafts, got.proposed_drafts, got.histogram) == (8, 30, None)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec_num_proposed_drafts": 29}, "29 proposed drafts, but 10 verify steps x 3 = 30"),
        ({"spec_num_correct_drafts": 9}, "the histogram holds 8 correct drafts, the count says 9"),
        ({"spec_num_correct_drafts": 31}, "31 correct drafts in 10 verify steps of at most 3"),
        ({"spec_verify_ct": 11, "spec_num_proposed_drafts": 33}, "sums to 10, not to 11"),
    ],
)
def test_counts_that_contradict_each_other(changes: dict[str, int], expected: str) -> None:
    found = "; ".join(contradictions(sample(answer([5, 3, 1, 1], **changes), NAMES, CHAIN), CHAIN))
    assert expected in found


def test_pooled_and_per_request_figures_are_two() -> None:
    long, short = answer([0, 0, 0, 30]), answer([10, 0, 0, 0])
    got = summarise([sample(a, NAMES, CHAIN) for a in (long, short)], CHAIN)
    assert got.accept_length is not None
    assert got.accept_length_mean is not None
    assert got.accept_length.value == pytest.approx(1 + 90 / 40)
    assert got.accept_length_mean.value == pytest.approx((4 + 1) / 2)


def test_joint_and_conditional_acceptance_of_a_chain() -> None:
    got = summarise([sample(answer(h), NAMES, CHAIN) for h in ([5, 3, 1, 1], [4, 2, 2, 2])], CHAIN)
    assert [d.drafts for d in got.depths] == [1, 2, 3]
    assert [d.joint.value for d in got.depths] == pytest.approx([11 / 20, 6 / 20, 3 / 20])
    assert [d.conditional for d in got.depths] == pytest.approx([11 / 20, 6 / 11, 3 / 6])
    assert all(d.joint.low < d.joint.value < d.joint.high for d in got.depths)
    dead = summarise([sample(answer([9, 0, 0, 0]), NAMES, CHAIN)], CHAIN)
    assert [d.conditional for d in dead.depths] == [0.0, None, None]


def test_a_tree_has_depths_and_no_positions() -> None:
    meta = {"spec_num_proposed_drafts": 7 * 4}
    got = summarise([sample(answer([1, 1, 1, 1], **meta), NAMES, TREE)], TREE)
    assert got.per_position is None
    assert [d.joint.value for d in got.depths] == pytest.approx([0.75, 0.5, 0.25])


def test_a_histogram_that_ends_early_has_zeros() -> None:
    got = summarise([sample(answer([6, 4]), NAMES, CHAIN)], CHAIN)
    assert got.per_position == pytest.approx((0.4, 0.0, 0.0))


def test_groups_by_set_and_by_length() -> None:
    samples = [
        replace(sample(answer(h), NAMES, CHAIN), prompt_set=name, prompt_tokens=tokens)
        for name, tokens, h in (
            ("code", 100, [0, 0, 0, 9]),
            ("chat", 128, [9, 0, 0, 0]),
            ("chat", 129, [0, 9, 0, 0]),
            ("code", 90000, [0, 9, 0, 0]),
        )
    ]
    got = summarise(samples, CHAIN)
    sets = {g.name: (g.prompts, g.accept_length and g.accept_length.value) for g in got.by_set}
    assert sets == {"code": (2, 3.0), "chat": (2, 1.5)}
    assert [(g.name, g.prompts) for g in got.by_prompt_tokens] == [
        ("up to 128", 2),
        ("129 to 512", 1),
        ("over 8192", 1),
    ]
    assert sum(g.verify_steps for g in got.by_set) == got.verify_steps


def test_what_is_cut_at_the_end_does_not_bias() -> None:
    # The last step brought three drafts, of which two went beyond the output's limit.
    whole = sample(answer([5, 3, 1, 1]), NAMES, CHAIN)
    cut = sample(answer([5, 3, 1, 1], completion_tokens=17), NAMES, CHAIN)
    assert whole.correct_drafts == cut.correct_drafts
    assert summarise([cut], CHAIN).accept_length == summarise([whole], CHAIN).accept_length


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"spec_verify_ct": 0, "completion_tokens": 20}, "counts zero, so it does not speculate"),
        ({"spec_verify_ct": None, "completion_tokens": 20}, "reports none of its acceptance"),
        ({"spec_verify_ct": None, "completion_tokens": 1}, "no answer has a second token"),
    ],
    ids=["zero", "unreported", "too-short"],
)
def test_each_absence_has_its_own_words(changes: dict[str, Any], says: str) -> None:
    got = summarise([sample(answer([0, 0, 0, 0], **changes), NAMES, CHAIN)] * 2, CHAIN)
    assert got.missing is not None
    assert got.missing.startswith("2 requests were answered without a single verify step: ")
    assert says in got.missing
    assert got.accept_length is None


@pytest.mark.parametrize("histogram", [[-10, 90, 0, 0], [40, 0, 0, 0, 0, 40]])
def test_a_histogram_that_no_verify_steps_have(histogram: list[int]) -> None:
    got = list(contradictions(sample(answer(histogram), NAMES, CHAIN), CHAIN))
    assert len(got) == 1
    assert "but a verify step has 0 to 3 correct drafts" in got[0]


def test_a_histogram_longer_than_it_need_be_is_no_fault() -> None:
    assert list(contradictions(sample(answer([4, 3, 2, 1, 0, 0]), NAMES, CHAIN), CHAIN)) == []
