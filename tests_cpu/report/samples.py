"""Results to render: a dead drafter, a healthy one with every figure there can be, and others.

Dates and versions are fixed, so that what is rendered can be compared.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from eagle3_checks.diagnosis import Evidence, Subject, diagnose
from eagle3_checks.report.result import build_result
from eagle3_checks.verdict import Finding, Severity, Status, Verdict
from tests_cpu.diagnosis.evidence import acceptance

CREATED = "2026-03-02T09:30:00+00:00"
HASH = "sha256-content:" + "5a" * 32
COMMAND = "pytest -m gpu --eagle3-profile kimi-k2.5"
FILE = "profiles/kimi-k2.5.toml"
PROFILE = {
    "target.path": {"value": "moonshotai/Kimi-K2.5", "origin": f"{FILE}:6"},
    "drafter.path": {"value": "lightseekorg/kimi-k2.5-eagle3", "origin": "command line"},
    "server.url": {"value": "", "origin": "default"},
    "server.env": {
        "value": {"NCCL_DEBUG": "WARN", "NCCL_NVLS_ENABLE": "1"},
        "origin": f"{FILE}:25",
    },
    "speculation.steps": {"value": 3, "origin": f"{FILE}:32"},
    "speculation.draft_tokens": {"value": 4, "origin": f"{FILE}:34"},
    "prompts.chat_template": {"value": True, "origin": f"{FILE}:41"},
    "speed.concurrencies": {"value": [1, 8], "origin": "environment EAGLE3_CHECKS_SPEED"},
    "floors.accept_length": {"value": 2.25, "origin": f"{FILE}:52"},
    "floors.accept_rate": {"value": 0.41, "origin": f"{FILE}:54"},
    "floors.tokens_per_second": {"value": {"1": 50.0, "B300:8": 900.0}, "origin": f"{FILE}:57"},
    "floors.speed_up": {"value": {"1": 1.8}, "origin": f"{FILE}:60"},
}


def finding(code: str, status: Status, **changes: Any) -> Finding:
    standard: dict[str, Any] = {
        "code": code,
        "family": code[:3],
        "severity": Severity.ERROR,
        "status": status,
        "title": f"{code} holds",
        "message": f"{code} holds",
        "docs": f"docs/rules/{code}.md",
    }
    return Finding(**(standard | changes))


def interval(value: float, half: float, n: int = 80) -> dict[str, Any]:
    return {"value": value, "low": value - half, "high": value + half, "level": 0.95, "n": n}


def group(name: str, value: float, half: float, prompts: int) -> dict[str, Any]:
    return {
        "name": name,
        "prompts": prompts,
        "verify_steps": prompts * 90,
        "accept_length": interval(value, half, prompts),
    }


DROPPED = finding(
    "WIR003",
    Status.FAIL,
    title="fc fuses all aux states in prefill and draft-extend",
    message="fc never ran in prefill and draft-extend: the drafter received 7168 instead of 21504 "
    "= 3 aux states x target hidden 7168; the shape test hidden == embedding skipped the fusion "
    "layer; the cause is the flag speculation.algorithm = EAGLE, under which the target captures "
    "no aux states",
    evidence={"width": 7168, "wanted": 21504},
    fix="Serve with --speculative-algorithm EAGLE3 (speculation.algorithm in the profile).",
)
DEAD = finding(
    "ACC001",
    Status.FAIL,
    title="The accept length reaches its floor",
    message="accept length 1.03 [1.01, 1.05] 95 %, 80 prompts, 19 876 verify steps; the floor is "
    "2.25",
    evidence={
        "value": 1.03,
        "low": 1.01,
        "high": 1.05,
        "level": 0.95,
        "floor": 2.25,
        "prompts": 80,
        "verify_steps": 19876,
        "correct_drafts": 596,
        "proposed_drafts": 59628,
        "per_position": [0.02, 0.0075, 0.0025],
    },
    fix="Look at the KEY, FUS, VOC and WIR findings first.",
)
SLOW = finding(
    "SPD001",
    Status.FAIL,
    title="Output speed reaches its floor at each concurrency",
    message="24.8 tok/s at concurrency 1 (16 requests, 4096 tokens in 165.2 s); the floor is 50.0",
    evidence={
        "1": {"tokens_per_second": 24.8, "floor": 50.0},
        "8": {"tokens_per_second": 161.5, "floor": None},
    },
    fix="Look at acceptance first (ACC001); then compare with a run without speculation.",
)
WARNED = finding(
    "CFG009",
    Status.FAIL,
    severity=Severity.WARNING,
    title="RoPE bases agree",
    message="rope_theta is 10000 in the drafter and 1000000 in the target",
    fix="Train the drafter with the base of its target.",
)
NOISY = finding(
    "SPD002",
    Status.INCONCLUSIVE,
    title="Every request was answered while speed was measured",
    message="2 of 16 requests failed at concurrency 8",
    evidence={"concurrency": 8, "failed": 2},
    fix="Look at the server's log for the time of the failures; lower the load or the batch.",
)
PASSED = (
    finding(
        "KEY001",
        Status.PASS,
        title="Every tensor of the file has a parameter that takes it",
        message="15 tensors",
    ),
    finding("FUS001", Status.PASS, title="fc takes all aux states", message="[7168, 21504]"),
)
SKIPPED = finding(
    "VOC004",
    Status.SKIP,
    title="t2d agrees with d2t",
    message="no t2d: SGLang does not read it",
)


def a_result(
    findings: tuple[Finding, ...],
    verdict: Verdict,
    measurements: Mapping[str, Any],
    *,
    sglang: str = "0.5.23",
    reproduce: str = COMMAND,
) -> dict[str, Any]:
    result = build_result(
        verdict=verdict,
        findings=findings,
        subject={
            "target": "moonshotai/Kimi-K2.5",
            "drafter": "lightseekorg/kimi-k2.5-eagle3",
            "sglang": sglang,
            "hashes": {"drafter": HASH},
        },
        measurements=measurements,
        environment={
            "server_command": ["python", "-m", "sglang.launch_server", "--model-path", "a b"],
            "server_environment": {"NCCL_DEBUG": "WARN"},
            "server_log": "eagle3-artefacts/server.log",
        },
        reproduce=reproduce,
    )
    result["profile"] = copy.deepcopy(PROFILE)
    result["environment"]["python"] = "3.12.0"
    return result | {"created": CREATED, "tool_version": "0.1.0"}


def dead() -> dict[str, Any]:
    """The silent fault: served under the wrong flag, nothing is accepted."""
    measurements = {
        "acceptance": {
            "prompts": 80,
            "verify_steps": 19876,
            "correct_drafts": 596,
            "proposed_drafts": 59628,
            "accept_length": interval(1.03, 0.02),
            "accept_rate": interval(0.01, 0.0067),
            "per_position": [0.02, 0.0075, 0.0025],
            "failed_requests": 0,
            "missing": None,
            "contradictions": [],
            "planned": 240,
            "stopped": "the verdict was certain",
        },
        "throughput": {"streams": [stream(1, 24.8), stream(8, 161.5)]},
        "stage_seconds": {"server start": 812.0, "acceptance": 241.0, "throughput": 96.0},
        "prompts_sha256": "c3" * 32,
    }
    findings = (*PASSED, SKIPPED, WARNED, DROPPED, DEAD, SLOW, NOISY)
    return a_result(findings, Verdict.FAIL, measurements)


def stream(concurrency: int, speed: float) -> dict[str, Any]:
    token = concurrency / speed
    return {
        "interval": interval(speed, 0.03 * speed, 16),
        "first_token": {"p50": 12 * token, "p99": 31 * token, "n": 16},
        "between_tokens": {"p50": token, "p99": 2.4 * token, "n": 4080},
        "concurrency": concurrency,
        "requests": 16,
        "failed": 0,
        "output_tokens": 4096,
        "seconds": 4096 / speed,
        "tokens_per_second": speed,
    }


def healthy() -> dict[str, Any]:
    """Everything measured: groups, the base run, a baseline and its history."""
    positions = ((0.74, 0.02, 0.74), (0.55, 0.025, 0.743), (0.41, 0.03, 0.745))
    measurements = {
        "acceptance": {
            "prompts": 480,
            "verify_steps": 43210,
            "correct_drafts": 73457,
            "proposed_drafts": 129630,
            "accept_length": interval(2.7, 0.06, 480),
            "accept_length_mean": interval(2.74, 0.06, 480),
            "accept_rate": interval(0.567, 0.02, 480),
            "per_position": [p[0] for p in positions],
            "depths": [
                {
                    "drafts": number,
                    "joint": interval(joint, half, 480),
                    "conditional": given,
                }
                for number, (joint, half, given) in enumerate(positions, start=1)
            ],
            "by_set": [
                group("chat", 2.62, 0.11, 80),
                group("code", 3.12, 0.09, 80),
                group("math", 2.95, 0.1, 80),
                group("long-context", 2.31, 0.16, 80),
                group("multilingual", 2.19, 0.13, 80),
                group("structured-output", 3.21, 0.08, 80),
            ],
            "by_prompt_tokens": [
                group("up to 128", 2.66, 0.09, 190),
                group("129 to 1024", 2.81, 0.1, 170),
                group("1025 to 8192", 2.6, 0.14, 90),
                group("over 8192", 2.2, 0.3, 30),
            ],
            "failed_requests": 0,
            "missing": None,
            "contradictions": [],
        },
        "throughput": {
            "streams": [
                stream(c, s) for c, s in ((1, 71.0), (4, 240.0), (16, 690.0), (64, 1380.0))
            ],
            "base": [stream(c, s) for c, s in ((1, 31.0), (4, 118.0), (16, 520.0), (64, 1530.0))],
            "speed_ups": [
                {
                    "concurrency": c,
                    "ratio": interval(r, 0.05),
                    "base_tokens_per_second": b,
                    "drift": 0.012,
                }
                for c, r, b in (
                    (1, 2.29, 31.0),
                    (4, 2.03, 118.0),
                    (16, 1.33, 520.0),
                    (64, 0.9, 1530.0),
                )
            ],
            "break_even": 42.0,
        },
        "baseline": {
            "path": "baselines/kimi-k2.5.json",
            "state": "alike",
            "recorded": "2026-02-20T08:00:00+00:00",
            "accept_length": 2.74,
            "margin": 0.05,
            "pairs": 480,
            "differences": [],
            "per_position": [0.75, 0.56, 0.43],
        },
        "judgements": {
            "error": 0.05,
            "baseline": {
                "outcome": "reached",
                "value": -0.011,
                "bound": -0.05,
                "interval": interval(-0.011, 0.021, 480),
                "prompts": 480,
                "planned": 480,
                "looks": 9,
                "verify_steps": 43210,
            },
        },
        "history": [
            {
                "recorded": f"2026-02-{day:02}T08:00:00+00:00",
                "verdict": "reached",
                "sglang": "0.5.22" if day < 14 else "0.5.23",
                "accept_length": value,
                "low": value - 0.07,
                "high": value + 0.07,
                "prompts": 480,
                "verify_steps": 43000,
                "per_position": [0.72, 0.54, round(value - 2.26, 2)],
                "tokens_per_second": {"1": 70.0},
            }
            for day, value in ((2, 2.61), (5, 2.66), (9, 2.58), (14, 2.71), (18, 2.75), (20, 2.74))
        ],
        "stage_seconds": {"server start": 790.0, "acceptance": 300.0, "throughput": 340.0},
        "prompts_sha256": "d4" * 32,
    }
    length = finding(
        "ACC001",
        Status.PASS,
        title="The accept length reaches its floor",
        message="accept length 2.70 [2.64, 2.76] 95 %, 480 prompts; floor 2.25",
    )
    return a_result((*PASSED, SKIPPED, length), Verdict.PASS, measurements)


def hostile() -> dict[str, Any]:
    """Names that try to leave their place in a page, a terminal, Markdown or a workflow command."""
    bad = finding(
        "KEY001",
        Status.FAIL,
        title="Every tensor of the file has a parameter that takes it",
        message="</style><script>alert(1)</script> <img src=x onerror=alert(2)> | "
        "`a` **b** [c](d)\n::error::forged 100%, at: \x1b[31mred",
        evidence={"tensors": ['"><svg onload=alert(3)>', "a,b:c"]},
        fix="</details>{{ 7 * 7 }}",
    )
    result = a_result((bad,), Verdict.FAIL, {}, reproduce="pytest -m gpu --eagle3-draft '<b>'")
    result["subject"]["drafter"] = "</title><script>alert(4)</script>"
    return result


def not_run() -> dict[str, Any]:
    """No machine to measure on."""
    return a_result((), Verdict.NOT_RUN, {"blocked": "this machine has no GPU"})


def unexplained() -> dict[str, Any]:
    """Few accepted drafts, and no rule that says why."""
    evidence = Evidence(
        findings=(DEAD,),
        acceptance=acceptance((0.1, 0.05, 0.02)),
        subject=Subject(drafter="my/drafter", target="my/target"),
    )
    result = a_result((DEAD,), Verdict.FAIL, {})
    again = build_result(
        verdict=Verdict.FAIL, findings=(DEAD,), subject={}, causes=diagnose(evidence)
    )
    return result | {"causes": again["causes"]}
