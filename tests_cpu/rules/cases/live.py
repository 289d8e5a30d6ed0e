"""SRV, WIR, ACC and SPD: facts of a running server and of measurements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eagle3_checks.facts import ForwardSeen, LoadedTensor, LoadSeen, PoolSeen, TrafficSeen
from eagle3_checks.profile import Floors
from tests_cpu.rules.cases.case import Case, alike, doubts, fires, healthy, skips, warns
from tests_cpu.rules.seen import LOAD, forward

FLAGS: dict[str, Any] = {
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
}
LOST = LoadedTensor(name="decoder.norm.weight", shape=(16,), dtype="BF16", into=())
SKIPPED: tuple[ForwardSeen, ...] = (forward("EXTEND", 16), forward("DRAFT_EXTEND_V2", 16))


def loaded(**changes: Any) -> tuple[LoadSeen, ...]:
    return (replace(LOAD, **changes),)


CASES: tuple[Case, ...] = (
    fires("SRV001", "speculative_num_steps is 5", info={**FLAGS, "speculative_num_steps": 5}),
    healthy("SRV001", info=FLAGS),
    alike("SRV001", info={**FLAGS, "tp_size": 8}),
    fires("SRV002", "SGLANG_SIMULATE_ACC_LEN=3.0", environment={"SGLANG_SIMULATE_ACC_LEN": "3.0"}),
    healthy("SRV002", environment={}),
    alike("SRV002", environment={"SGLANG_SIMULATE_ACC_LEN": "-1"}),
    fires(
        "SRV002",
        "invents its choice of experts",
        environment={"SGLANG_SIMULATE_UNIFORM_EXPERTS": "true"},
    ),
    alike("SRV002", environment={"SGLANG_SIMULATE_ROUND_ROBIN_EXPERTS": "0"}),
    warns("SRV010", "SGLANG_IS_IN_CI=true", environment={"SGLANG_IS_IN_CI": "true"}),
    warns("SRV010", "meant for SGLang's own tests", environment={"SGLANG_TEST_RETRACT": "1"}),
    healthy("SRV010", environment={"SGLANG_USE_CPU_ENGINE": "1"}),
    alike("SRV010", environment={"SGLANG_IS_IN_CI": "0", "SGLANG_TEST_RETRACT": "false"}),
    skips("SRV010", "an attached server cannot be seen", launched=False),
    healthy("SRV003", "SGLang 0.5.23 ready after"),
    alike("SRV003", "SGLang 0.5.23 answers", launched=False),
    fires(
        "SRV004",
        "384 of 8192 tokens of the KV pool are still in use",
        pool=PoolSeen(used=384, capacity=8192),
    ),
    fires(
        "SRV004",
        "does not come to rest: POST /flush_cache answered 400",
        pool=PoolSeen(refused="POST /flush_cache answered 400: requests run"),
    ),
    healthy("SRV004", "0 of 8192 tokens in use", pool=PoolSeen(used=0, capacity=8192)),
    alike("SRV004", "0 tokens in use", pool=PoolSeen(used=0)),
    skips("SRV004", "does not tell", pool=PoolSeen()),
    warns(
        "SRV005",
        "took 57 requests meanwhile, and 40 of them were sent from here",
        traffic=TrafficSeen(unit="requests", counted=57, ours=40),
    ),
    warns(
        "SRV005",
        "took 9000 prompt tokens",
        traffic=TrafficSeen(unit="prompt tokens", counted=9000, ours=8000),
    ),
    healthy("SRV005", traffic=TrafficSeen(unit="requests", counted=40, ours=40)),
    alike("SRV005", traffic=TrafficSeen(unit="prompt tokens", counted=8060, ours=8000)),
    skips("SRV005", "--enable-metrics", traffic=TrafficSeen(unit="")),
    doubts("WIR000", "the probe saw no load and no forward of a drafter", loads=(), forwards=()),
    healthy("WIR000"),
    fires(
        "WIR001",
        "dropped 1 tensor of 4: decoder.norm.weight",
        loads=loaded(tensors=(*LOAD.tensors, LOST)),
    ),
    healthy("WIR001"),
    alike("WIR001", "all of 3 tensors", loads=loaded(unwritten=("lm_head.weight",))),
    fires(
        "WIR002",
        "random initial values: lm_head.weight",
        loads=loaded(unwritten=("lm_head.weight",)),
    ),
    healthy("WIR002"),
    alike("WIR002", loads=loaded(unwritten=("model.layers.1.input_layernorm.weight",), shared=())),
    fires("WIR003", "fc never ran in prefill", forwards=SKIPPED),
    healthy("WIR003"),
    skips(
        "WIR003",
        "fc is not meant to run",
        draft={"eagle_config": {"use_aux_hidden_state": False}},
        forwards=SKIPPED,
    ),
    warns("WIR000", "the probe met a fault of its own: KeyError: x", errors=("KeyError: x",)),
    alike("WIR000", forwards=(forward("EXTEND"), forward("DECODE", 16))),
    fires("ACC001", "the floor is 2.50", floors=Floors(accept_length=2.5)),
    healthy("ACC001", floors=Floors(accept_length=2.0)),
    skips("ACC001", "the profile has no floors.accept_length", floors=Floors()),
    fires("ACC002", "the floor is 0.50", floors=Floors(accept_rate=0.5)),
    healthy("ACC002", floors=Floors(accept_rate=0.3)),
    skips("ACC002", "the profile has no floors.accept_rate", floors=Floors()),
    fires("ACC003", "1 contradiction: x", contradictions=("x",)),
    healthy("ACC003"),
    skips("ACC003", "no verify steps were counted", verify_steps=0),
    doubts("ACC004", "2 of 82 requests failed", failed_requests=2),
    healthy("ACC004"),
    alike("ACC004", verify_steps=0),
    fires("SPD001", "19.0 tok/s at concurrency 1", speeds={1: 19.0}, floors={"1": 20.0}),
    healthy("SPD001", speeds={1: 21.0}, floors={"1": 20.0}),
    alike("SPD001", speeds={1: 20.0, 8: 1.0}, floors={"1": 20.0}),
    doubts("SPD002", "3 of 16 requests failed", speeds={8: 99.0}, failed=3),
    healthy("SPD002", speeds={8: 99.0}),
    skips("SPD002", "", speeds={}),
)
