from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.diagnosis import Evidence, diagnose
from eagle3_checks.diagnosis.catalogue import CAUSES, name_of
from eagle3_checks.rules.registry import codes
from eagle3_checks.verdict import Confidence, Severity, Status
from tests_cpu.diagnosis.evidence import (
    DEAD,
    HEALTHY,
    LOW,
    acceptance,
    finding,
    group,
    run,
    trial,
    trials,
)


def names(evidence: Evidence) -> list[str]:
    return [cause.name for cause in diagnose(evidence)]


def test_what_a_rule_found_stands_first_and_carries_its_symptoms() -> None:
    found = diagnose(run(finding("WIR003"), finding("CFG004")))
    assert [(c.name, c.code) for c in found] == [("algorithm", "CFG004"), ("fusion", "WIR003")]
    assert all(cause.confidence is Confidence.PROVEN for cause in found)
    assert found[0].evidence_for == ("WIR003 WIR003 message", "ACC001 ACC001 message")


def test_files_stand_before_the_server_and_errors_before_warnings() -> None:
    found = (finding("KEY006", Severity.WARNING), finding("WIR003"), finding("FUS001"))
    ranked = diagnose(Evidence(findings=(*found, finding("VOC007", Severity.INFO))))
    assert [cause.code for cause in ranked] == ["FUS001", "WIR003", "KEY006"]


def test_an_error_that_was_not_so_inside_the_server_is_no_proof() -> None:
    seen = finding("WIR001", status=Status.PASS)
    cause = next(c for c in diagnose(run(finding("KEY001"), seen)) if c.name == "tensors")
    assert cause.confidence is Confidence.LIKELY
    assert "WIR001 passed" in cause.evidence_against[0]


@pytest.mark.parametrize(
    ("shares", "first", "told"),
    [
        ((0.1, 0.05, 0.02), "wiring", "below 0.30"),
        ((0.55, 0.35, 0.2), "training", "between 0.30 and 0.50"),
        ((0.7, 0.55, 0.4), "training", "above 0.50"),
    ],
)
def test_bands_of_practice_without_a_replay(
    shares: tuple[float, ...], first: str, told: str
) -> None:
    ranked = diagnose(run(served=shares))
    assert ranked[0].name == first
    assert told in ranked[0].evidence_for[0]
    assert {c.name for c in ranked} >= {"wiring", "training"}
    assert all(cause.confidence is Confidence.SUSPECTED for cause in ranked)


def test_a_wiring_that_is_proven_is_no_longer_suspected_first() -> None:
    seen = [finding(f"WIR00{n}", status=Status.PASS) for n in (1, 2, 3, 4, 6)]
    assert names(run(*seen))[0] == "training"
    assert names(run(*seen[:-1]))[0] == "wiring"


def test_a_good_replay_and_bad_serving_is_wiring() -> None:
    ranked = diagnose(run(tried=trials(HEALTHY, faults=(trial("aux-order", (0.3, 0.2, 0.1)),))))
    assert [(c.name, c.confidence) for c in ranked] == [("wiring", Confidence.LIKELY)]
    assert "the reference reaches 2.35" in ranked[0].evidence_for[0]


def test_a_fault_that_looks_as_what_is_served_is_named() -> None:
    near, far = trial("aux-order", (0.19, 0.06, 0.03)), trial("residual", (0.02, 0.0, 0.0))
    ranked = diagnose(run(served=(0.2, 0.06, 0.02), tried=trials(HEALTHY, faults=(far, near))))
    assert (ranked[0].name, ranked[0].confidence) == ("aux-order", Confidence.LIKELY)
    assert "it could also be: wiring" in ranked[0].evidence_against[-1]


def test_faults_that_look_alike_are_suspected_with_each_other() -> None:
    faults = (trial("head", (0.03, 0.0, 0.0)), trial("embedding", (0.05, 0.0, 0.0)))
    ranked = diagnose(run(tried=trials(HEALTHY, faults=faults)))
    by_name = {c.name: c for c in ranked}
    assert by_name["head"].confidence is Confidence.SUSPECTED
    assert "embedding" in by_name["head"].evidence_against[-1]


def test_a_fault_that_counts_as_the_server_does_is_likely_even_where_all_look_near() -> None:
    same = replace(trial("loaded-weights", DEAD), distance=0.0)
    near = replace(trial("vocabulary", (0.0, 0.0, 0.0)), distance=0.07)
    ranked = diagnose(run(tried=trials(HEALTHY, faults=(near, same))))
    assert (ranked[0].name, ranked[0].confidence) == ("loaded-weights", Confidence.LIKELY)
    close = replace(near, distance=0.02)
    ranked = diagnose(run(tried=trials(HEALTHY, faults=(close, same))))
    assert ranked[0].name == "wiring"


def test_bad_both_ways_is_training_where_no_change_helps() -> None:
    useless = trial("rope", (0.05, 0.0, 0.0))
    ranked = diagnose(run(tried=trials(DEAD, repairs=(useless,))))
    assert (ranked[0].name, ranked[0].confidence) == ("training", Confidence.LIKELY)
    assert "no change of one setting" in ranked[0].evidence_for[-1]


def test_the_one_change_that_mends_it_is_proof() -> None:
    repairs = (trial("rope", HEALTHY), trial("aux-order", (0.1, 0.0, 0.0)))
    ranked = diagnose(run(tried=trials(DEAD, repairs=repairs)))
    assert (ranked[0].name, ranked[0].confidence) == ("rope", Confidence.PROVEN)


def test_two_changes_that_mend_it_are_no_proof() -> None:
    repairs = (trial("rope", HEALTHY), trial("aux-order", (0.62, 0.42, 0.28)))
    ranked = diagnose(run(tried=trials(DEAD, repairs=repairs)))
    assert [c.name for c in ranked[:2]] == ["rope", "aux-order"]
    assert not any(cause.confidence is Confidence.PROVEN for cause in ranked)


def test_a_warning_is_held_against_the_replay() -> None:
    warned = finding("CFG011", Severity.WARNING)
    without = diagnose(run(warned))
    assert (without[0].name, without[0].code) == ("rope", "CFG011")
    useless = trial("rope", (0.05, 0.0, 0.0), "the target's rope_theta")
    refuted = diagnose(run(warned, tried=trials(DEAD, repairs=(useless,))))
    assert [c.name for c in refuted] == ["training", "rope"]
    assert "the target's rope_theta reaches no more than 1.05" in refuted[1].evidence_against[0]
    mended = diagnose(run(warned, tried=trials(DEAD, repairs=(trial("rope", HEALTHY),))))
    assert (mended[0].code, mended[0].confidence) == ("CFG011", Confidence.PROVEN)


def test_a_warning_of_weights_is_likely_where_the_reference_does_no_better() -> None:
    warned = finding("VAL004", Severity.WARNING)
    (first, *_) = diagnose(run(warned, tried=trials(DEAD, repairs=(trial("rope", DEAD),))))
    assert (first.name, first.confidence) == ("weights", Confidence.LIKELY)
    assert "the server does what the files say" in first.evidence_for[-1]
    (first, *_) = diagnose(run(warned, tried=trials(HEALTHY)))
    assert first.name == "wiring"


def test_warnings_that_cost_nothing_stand_last() -> None:
    assert names(run(finding("VAL006", Severity.WARNING)))[-1] == "embedding"


def test_an_input_without_effect_is_named() -> None:
    shares = (0.28, 0.09, 0.04)
    ranked = diagnose(
        run(served=shares, tried=trials(shares, ablations=(trial("aux-unused", shares),)))
    )
    assert ranked[0].name == "aux-unused"


def test_a_small_vocabulary_is_named() -> None:
    ranked = diagnose(run(tried=trials(DEAD, coverage=0.12)))
    assert ranked[0].name == "vocabulary"
    assert "holds 12% of what the target says" in ranked[0].evidence_for[1]


@pytest.mark.parametrize(
    ("shares", "name"),
    [((0.1, 0.06, 0.04), "alignment"), ((0.6, 0.05, 0.0), "unroll"), ((0.6, 0.4, 0.25), "")],
)
def test_the_shape_of_a_replay(shares: tuple[float, ...], name: str) -> None:
    ranked = names(run(served=shares, tried=trials(shares)))
    assert (name in ranked) == bool(name)
    assert ({"alignment", "unroll"} - {name}).isdisjoint(ranked)


def test_breaking_in_the_server_alone_is_positions() -> None:
    assert "positions" in names(run(served=(0.6, 0.05, 0.0), tried=trials(HEALTHY)))


def test_falling_with_length_is_rope_or_context() -> None:
    measured = acceptance(DEAD, by_prompt_tokens=(group("up to 128", 2.4), group("over 1024", 1.3)))
    assert names(run(measured=measured))[:2] == ["rope", "context"]
    level = acceptance(DEAD, by_prompt_tokens=(group("up to 128", 2.4), group("over 1024", 2.2)))
    assert "rope" not in names(run(measured=level))


def test_one_bad_prompt_set_is_told() -> None:
    measured = acceptance(DEAD, by_set=(group("chat", 1.2), group("code", 2.4)))
    assert "prompts" in names(run(measured=measured))


def test_speed_alone_is_the_cost_of_drafting() -> None:
    (cause,) = diagnose(Evidence(findings=(finding("SPD001"),)))
    assert (cause.name, cause.confidence) == ("draft-cost", Confidence.SUSPECTED)


def test_nothing_failed_and_nothing_is_named() -> None:
    passed = finding("KEY001", status=Status.PASS)
    assert diagnose(Evidence(findings=(passed,), acceptance=acceptance(HEALTHY))) == ()


def test_commands_name_the_checkpoints() -> None:
    (cause,) = diagnose(Evidence(findings=(finding("KEY001"),)))
    assert cause.next_steps[0].command == "eagle3-checks repackage DRAFTER OUT --target TARGET"


def test_every_rule_leads_to_a_cause() -> None:
    assert {name_of(code) for code in codes()} <= CAUSES.keys()


SHARES = st.lists(st.floats(0, 1), min_size=3, max_size=3).map(
    lambda drawn: tuple(sorted(drawn, reverse=True))
)
NAMES = st.sampled_from(sorted(CAUSES))


@given(SHARES, SHARES, st.lists(st.tuples(NAMES, SHARES)), st.lists(st.tuples(NAMES, SHARES)))
def test_no_cause_is_proven_but_by_the_one_change_that_wins_what_is_missing(
    served: tuple[float, ...],
    unchanged: tuple[float, ...],
    repairs: list[tuple[str, tuple[float, ...]]],
    faults: list[tuple[str, tuple[float, ...]]],
) -> None:
    tried = trials(
        unchanged,
        repairs=tuple(trial(*drawn) for drawn in repairs),
        faults=tuple(trial(*drawn) for drawn in faults),
    )
    ranked = diagnose(run(served=served, tried=tried))
    assert ranked
    assert len({cause.name for cause in ranked}) == len(ranked)
    for place, cause in enumerate(ranked):
        if cause.confidence is Confidence.PROVEN:
            assert place == 0
            missing = 2.0 - (1 + sum(served))
            wins = [sum(s) - sum(unchanged) for name, s in repairs if name == cause.name]
            assert max(wins) >= 0.8 * missing
        elif len(ranked) > 1:
            assert "it could also be" in cause.evidence_against[-1]
    assert LOW.code in {cause.code for cause in ranked}


def test_the_page_lists_every_cause() -> None:
    page = (Path(__file__).parents[2] / "docs" / "diagnosis.md").read_text()
    for name, known in CAUSES.items():
        assert f"| `{name}` | {known.title} |" in page


def state(kind: str, layer: int) -> dict[str, object]:
    return {"kind": kind, "layer": layer, "off": 0.0}


@pytest.mark.parametrize(
    ("found", "name"),
    [
        ([("state", 5), ("state", 4), ("state", 2)], "aux-order"),
        ([("state", 3), ("state", 5), ("state", 6)], "aux-layers"),
        ([("output", 2), ("output", 4), ("output", 5)], "residual"),
        ([("unfinished", 2), ("unfinished", 4), ("scaled", 5)], "partial-sums"),
        ([("unknown", 2), ("unknown", 4), ("unknown", 5)], "wiring"),
        ([], "fusion"),
    ],
)
def test_what_the_states_are_names_the_cause(found: list[tuple[str, int]], name: str) -> None:
    evidence = {"expected": [2, 4, 5], "found": [state(*seen) for seen in found]}
    assert name_of("WIR004", evidence) == name


def test_what_is_right_inside_the_server_is_no_suspect() -> None:
    faults = (trial("aux-order", (0.04, 0.0, 0.0)), trial("loaded-weights", (0.06, 0.0, 0.0)))
    seen = finding("WIR004", status=Status.PASS)
    ranked = diagnose(run(seen, tried=trials(HEALTHY, faults=faults)))
    assert ranked[0].name == "loaded-weights"
    assert "aux-order" not in {c.name for c in ranked}
