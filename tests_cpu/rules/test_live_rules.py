"""SRV, WIR, ACC and SPD: planted defects, healthy facts, look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from eagle3_checks.facts import CaptureSeen, ForwardSeen, LoadedTensor, LoadSeen
from eagle3_checks.profile import Floors
from eagle3_checks.verdict import Finding, Severity, Status

Judge = Callable[..., tuple[Finding, ...]]
Forward = Callable[..., ForwardSeen]
FLAGS = {
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
}


@pytest.mark.parametrize("code", ["WIR000", "WIR001", "WIR002", "WIR003"])
def test_healthy_wiring_passes(judge_wiring: Judge, code: str) -> None:
    (finding,) = judge_wiring(code)
    assert finding.status is Status.PASS


@pytest.mark.parametrize("code", ["WIR000", "WIR001", "WIR002"])
def test_a_silent_probe_is_inconclusive(judge_wiring: Judge, code: str) -> None:
    (finding,) = judge_wiring(code, loads=(), forwards=())
    assert finding.status is Status.INCONCLUSIVE


def test_the_probes_own_faults_are_warnings(judge_wiring: Judge) -> None:
    (finding,) = judge_wiring("WIR000", errors=("KeyError: x",))
    assert (finding.status, finding.severity) == (Status.FAIL, Severity.WARNING)


def test_a_dropped_tensor(judge_wiring: Judge, seen_load: LoadSeen) -> None:
    lost = LoadedTensor(name="decoder.norm.weight", shape=(16,), dtype="BF16", into=())
    load = replace(seen_load, tensors=(*seen_load.tensors, lost))
    (finding,) = judge_wiring("WIR001", loads=(load, replace(load, rank=1)))
    assert finding.is_error
    assert finding.message == ("LlamaForCausalLMEagle3 dropped 1 tensor of 4: decoder.norm.weight")


def test_t2d_is_not_missed(judge_wiring: Judge) -> None:
    (finding,) = judge_wiring("WIR001")
    assert finding.message == "all of 3 tensors reached a parameter"


def test_unwritten_parameters(judge_wiring: Judge, seen_load: LoadSeen) -> None:
    unwritten = (*seen_load.unwritten, "lm_head.weight", "model.norm.weight")
    findings = judge_wiring("WIR002", loads=(replace(seen_load, unwritten=unwritten),))
    assert [f.severity for f in findings] == [Severity.ERROR, Severity.WARNING]
    assert "random initial values: lm_head.weight" in findings[0].message
    assert "model.norm.weight" in findings[1].message


def test_what_the_target_replaces_and_what_is_never_read_is_healthy(
    judge_wiring: Judge, seen_load: LoadSeen
) -> None:
    unwritten = (*seen_load.unwritten, "model.layers.1.input_layernorm.weight")
    (finding,) = judge_wiring("WIR002", loads=(replace(seen_load, unwritten=unwritten),))
    assert finding.status is Status.PASS
    assert "the target's: model.embed_tokens.weight" in finding.message


def test_a_skipped_fusion_layer(judge_wiring: Judge, seen_forward: Forward, snapshot: Any) -> None:
    forwards = tuple(seen_forward(m, 16) for m in ("EXTEND", "DECODE", "DRAFT_EXTEND_V2"))
    (finding,) = judge_wiring("WIR003", forwards=forwards)
    assert finding.is_error
    assert (finding.message, finding.fix) == snapshot


def test_a_skipped_fusion_layer_under_eagle(judge_wiring: Judge, seen_forward: Forward) -> None:
    forwards = (seen_forward("EXTEND", 16),)
    (finding,) = judge_wiring("WIR003", forwards=forwards, captures=(), algorithm="EAGLE")
    assert "the cause is the flag speculation.algorithm = EAGLE" in finding.message
    assert finding.fix.startswith("Serve with --speculative-algorithm EAGLE3")


def test_a_skipped_fusion_layer_over_a_shallow_target(
    judge_wiring: Judge, seen_forward: Forward
) -> None:
    captures = (CaptureSeen(rank=0, target_class="LlamaForCausalLM", layers=(2, 2, 2)),)
    (finding,) = judge_wiring("WIR003", forwards=(seen_forward("EXTEND", 16),), captures=captures)
    assert (
        "LlamaForCausalLM was told to capture the layers 2, 2, 2, which are 1 of the 3 that fc"
    ) in finding.message


def test_one_mode_that_skips_is_enough(judge_wiring: Judge, seen_forward: Forward) -> None:
    forwards = (seen_forward("EXTEND"), seen_forward("DRAFT_EXTEND_V2", 16))
    (finding,) = judge_wiring("WIR003", forwards=forwards)
    assert finding.message.startswith("fc never ran in draft-extend")


def test_a_fusion_layer_fed_with_two_states(judge_wiring: Judge, seen_forward: Forward) -> None:
    forwards = (seen_forward("EXTEND", 32), seen_forward("DRAFT_EXTEND_V2", 32))
    (finding,) = judge_wiring("WIR003", forwards=forwards)
    assert finding.message.startswith(
        "fc ran in prefill on 32 instead of 48 = 3 aux states x target hidden 16"
    )


@pytest.mark.parametrize("modes", [(), ("DECODE",), ("EXTEND", "DECODE")])
def test_modes_that_were_not_seen_are_inconclusive(
    judge_wiring: Judge, seen_forward: Forward, modes: tuple[str, ...]
) -> None:
    forwards = tuple(seen_forward(m, 16 if m == "DECODE" else 48) for m in modes)
    (finding,) = judge_wiring("WIR003", forwards=forwards)
    assert finding.status is Status.INCONCLUSIVE


def test_drafting_steps_without_fc_are_healthy(judge_wiring: Judge) -> None:
    (finding,) = judge_wiring("WIR003")
    assert finding.message == (
        "fc took 48 = 3 aux states x target hidden 16 in prefill and draft-extend"
    )


def test_a_drafter_that_takes_no_aux_states_is_skipped(
    judge_wiring: Judge, seen_forward: Forward
) -> None:
    draft = {"eagle_config": {"use_aux_hidden_state": False}}
    (finding,) = judge_wiring("WIR003", forwards=(seen_forward("EXTEND", 16),), draft=draft)
    assert finding.status is Status.SKIP


@pytest.mark.parametrize(
    ("code", "floors"),
    [("ACC001", Floors(accept_length=2.5)), ("ACC002", Floors(accept_rate=0.5))],
)
def test_below_the_floor(judge_acceptance: Judge, code: str, floors: Floors, snapshot: Any) -> None:
    (finding,) = judge_acceptance(code, floors=floors)
    assert finding.is_error
    assert finding.message == snapshot


@pytest.mark.parametrize(
    ("code", "floors"),
    [("ACC001", Floors(accept_length=2.2)), ("ACC002", Floors(accept_rate=0.40))],
)
def test_across_the_floor_is_inconclusive(
    judge_acceptance: Judge, code: str, floors: Floors
) -> None:
    (finding,) = judge_acceptance(code, floors=floors)
    assert finding.status is Status.INCONCLUSIVE
    assert "the interval holds the floor" in finding.message


@pytest.mark.parametrize(
    ("code", "floors"),
    [("ACC001", Floors(accept_length=2.11)), ("ACC002", Floors(accept_rate=0.3))],
)
def test_above_the_floor(judge_acceptance: Judge, code: str, floors: Floors) -> None:
    (finding,) = judge_acceptance(code, floors=floors)
    assert finding.status is Status.PASS
    assert finding.evidence["verify_steps"] == 19876


@pytest.mark.parametrize("code", ["ACC001", "ACC002"])
def test_without_a_floor_the_figure_is_told(judge_acceptance: Judge, code: str) -> None:
    (finding,) = judge_acceptance(code)
    assert finding.status is Status.SKIP
    assert "measured accept" in finding.message


@pytest.mark.parametrize(
    "changes",
    [{"verify_steps": 0}, {"missing": "no request was answered"}, {"length": None, "rate": None}],
)
@pytest.mark.parametrize("code", ["ACC001", "ACC002"])
@pytest.mark.parametrize("floors", [Floors(), Floors(accept_length=1.0, accept_rate=0.0)])
def test_no_figure_never_passes(
    judge_acceptance: Judge, code: str, changes: dict[str, Any], floors: Floors
) -> None:
    (finding,) = judge_acceptance(code, floors=floors, **changes)
    assert finding.status is Status.INCONCLUSIVE


def test_counts_that_contradict(judge_acceptance: Judge) -> None:
    found = tuple(f"p{i}: 9 proposed drafts, but 4 x 3 = 12" for i in range(7))
    (finding,) = judge_acceptance("ACC003", contradictions=found)
    assert finding.is_error
    assert finding.message.startswith("7 contradictions: p0: 9 proposed")
    assert finding.message.endswith("; and 2 more")


def test_counts_that_agree(judge_acceptance: Judge) -> None:
    assert judge_acceptance("ACC003")[0].status is Status.PASS
    assert judge_acceptance("ACC003", verify_steps=0)[0].status is Status.SKIP


def test_failed_requests(judge_acceptance: Judge) -> None:
    (finding,) = judge_acceptance("ACC004", failed_requests=2)
    assert finding.status is Status.INCONCLUSIVE
    assert finding.message == "2 of 82 requests failed while acceptance was measured"
    assert judge_acceptance("ACC004")[0].status is Status.PASS


def test_no_answer_at_all_is_not_every_prompt_answered(judge_acceptance: Judge) -> None:
    (finding,) = judge_acceptance("ACC004", prompts=0, verify_steps=0)
    assert finding.status is Status.INCONCLUSIVE


def test_too_slow(judge_speed: Judge) -> None:
    (finding,) = judge_speed("SPD001", {1: 19.0, 8: 70.0}, {"1": 20.0, "8": 60.0})
    assert finding.is_error
    assert finding.message.startswith("19.0 tok/s at concurrency 1 (16 requests")


def test_fast_enough(judge_speed: Judge) -> None:
    (finding,) = judge_speed("SPD001", {1: 20.0, 8: 1.0}, {"1": 20.0})
    assert finding.status is Status.PASS


def test_a_concurrency_that_was_not_measured(judge_speed: Judge) -> None:
    (finding,) = judge_speed("SPD001", {1: 99.0}, {"8": 20.0})
    assert finding.status is Status.INCONCLUSIVE


def test_a_speed_with_failed_requests_is_no_clean_figure(judge_speed: Judge) -> None:
    (finding,) = judge_speed("SPD001", {1: 99.0}, {"1": 20.0}, failed=1)
    assert finding.status is Status.INCONCLUSIVE


def test_speed_without_floors(judge_speed: Judge) -> None:
    assert judge_speed("SPD001", {1: 1.0})[0].status is Status.SKIP


def test_requests_that_failed_under_load(judge_speed: Judge) -> None:
    (finding,) = judge_speed("SPD002", {8: 99.0}, failed=3)
    assert finding.status is Status.INCONCLUSIVE
    assert finding.message == "3 of 16 requests failed at concurrency 8"
    assert judge_speed("SPD002", {8: 99.0})[0].status is Status.PASS
    assert judge_speed("SPD002", {})[0].status is Status.SKIP


@pytest.mark.parametrize(
    ("info", "says"),
    [
        ({"speculative_algorithm": None}, "speculative_algorithm is None (it does not speculate)"),
        ({"speculative_algorithm": "EAGLE"}, "speculative_algorithm is EAGLE; the profile's"),
        ({"speculative_num_steps": 5}, "speculative_num_steps is 5; the profile's"),
    ],
)
def test_a_server_with_other_flags(judge_server: Judge, info: dict[str, Any], says: str) -> None:
    (finding,) = judge_server("SRV001", {**FLAGS, **info})
    assert finding.is_error
    assert says in finding.message


def test_a_server_with_the_profiles_flags(judge_server: Judge) -> None:
    assert judge_server("SRV001", FLAGS)[0].status is Status.PASS
    assert judge_server("SRV001", {**FLAGS, "tp_size": 8})[0].status is Status.PASS


def test_a_server_that_says_nothing_is_inconclusive(judge_server: Judge) -> None:
    assert judge_server("SRV001", {"version": "1"})[0].status is Status.INCONCLUSIVE


@pytest.mark.parametrize("name", ["SGLANG_SIMULATE_ACC_LEN", "SIMULATE_ACC_LEN"])
def test_an_environment_that_fakes_acceptance(judge_server: Judge, name: str) -> None:
    (finding,) = judge_server("SRV002", environment={name: "3.0"})
    assert finding.is_error
    assert f"{name}=3.0" in finding.message


@pytest.mark.parametrize(
    "environment",
    [{}, {"SGLANG_SIMULATE_ACC_LEN": "-1"}, {"SGLANG_SIMULATE_ACC_LEN": ""}, {"SGLANG_X": "1"}],
)
def test_environments_that_fake_nothing(judge_server: Judge, environment: dict[str, str]) -> None:
    assert judge_server("SRV002", environment=environment)[0].status is Status.PASS


def test_a_method_alone_is_a_warning(judge_server: Judge) -> None:
    (finding,) = judge_server("SRV002", environment={"SGLANG_SIMULATE_ACC_METHOD": "multinomial"})
    assert finding.severity is Severity.WARNING


def test_the_environment_of_an_attached_server_is_unknown(judge_server: Judge) -> None:
    assert judge_server("SRV002", launched=False)[0].status is Status.SKIP


def test_a_server_that_is_up(judge_server: Judge) -> None:
    assert judge_server("SRV003")[0].message == "SGLang 0.5.23 ready after 12 s"
    assert judge_server("SRV003", launched=False)[0].message == "SGLang 0.5.23 answers"
