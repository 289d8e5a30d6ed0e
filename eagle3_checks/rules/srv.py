"""SRV: whether the server is the one that the profile asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eagle3_checks.facts import PoolSeen, ServerSeen, TrafficSeen
from eagle3_checks.profile import Speculation
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.text import listed
from eagle3_checks.verdict import Severity

ABSENT = object()
SIMULATED = "SIMULATE_"
"""In the name of every variable that makes SGLang invent what it would otherwise compute."""
LENGTH = "SIMULATE_ACC_LEN"
"""End of the name of the one that invents acceptance; negative or absent is off."""
EXPERTS = ("SIMULATE_UNIFORM_EXPERTS", "SIMULATE_ROUND_ROBIN_EXPERTS")
"""Ends of the names of those that send tokens to experts that the router did not choose."""
IN_CI = "SGLANG_IS_IN_CI"
LONGER = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
TEST_ONLY = ("SGLANG_TEST_", "SGLANG_RADIX_FORCE_MISS")
_OFF = ("", "0", "0.0", "false", "no", "n")
FLAGS: Mapping[str, str] = {
    "speculative_algorithm": "algorithm",
    "speculative_num_steps": "steps",
    "speculative_eagle_topk": "topk",
    "speculative_num_draft_tokens": "draft_tokens",
}
"""Keys of /server_info, and what the profile calls them."""


TOKENS_TO_SPARE = 64
SHARE_TO_SPARE = 0.02
"""Prompt tokens that the server may count besides: of health probes, and of requests that it took
back and began anew."""


class SRV001(Rule):
    """The server runs with the speculation flags of the profile."""

    title = "The server's flags are the profile's"
    why = (
        "SGLang adjusts flags on its own, and an attached server may run with others: floors for "
        "3 steps say nothing about a server that takes 5, or none."
    )
    fix = "Start the server with the profile's flags, or write the server's into the profile."
    references = ("https://docs.sglang.ai/advanced_features/speculative_decoding.html",)

    @staticmethod
    def check(server: ServerSeen, speculation: Speculation) -> Outcome:
        """Compare what /server_info says with the profile."""
        seen = {key: server.info.get(key, ABSENT) for key in FLAGS}
        if all(value is ABSENT for value in seen.values()):
            return (
                Problem(
                    message="/server_info says nothing about speculation flags",
                    fix="Check the server's SGLang version and that the URL is its own.",
                    inconclusive=True,
                ),
            )
        problems = tuple(_other_flags(seen, speculation))
        if problems:
            return problems
        told = ", ".join(f"{FLAGS[k]} {v}" for k, v in seen.items() if v is not ABSENT)
        return Passed(message=told)


def _other_flags(seen: Mapping[str, Any], speculation: Speculation) -> Iterator[Problem]:
    for key, name in FLAGS.items():
        wanted, value = getattr(speculation, name), seen[key]
        if value is ABSENT or _same(value, wanted):
            continue
        off = " (it does not speculate)" if key == "speculative_algorithm" and not value else ""
        yield Problem(
            message=(
                f"the server's {key} is {listed([str(value)])}{off}; the profile's "
                f"speculation.{name} is {wanted}"
            ),
            evidence={"flag": key, "seen": value, "wanted": wanted},
        )


def _same(value: Any, wanted: str | int) -> bool:
    if isinstance(wanted, str):
        return isinstance(value, str) and value.upper() == wanted.upper()
    return type(value) is int and value == wanted


class SRV002(Rule):
    """Nothing in the server's environment invents acceptance."""

    title = "No environment variable fakes acceptance"
    why = (
        "With SGLANG_SIMULATE_ACC_LEN set, SGLang accepts a fixed number of drafts without looking "
        "at them: every acceptance floor passes, and the answers are wrong. With "
        "SGLANG_SIMULATE_UNIFORM_EXPERTS or _ROUND_ROBIN_EXPERTS a target of experts answers by "
        "chance. No acceptance, speed or answer of such a server is judged."
    )
    fix = "Unset the SGLANG_SIMULATE_* variables and start the server again."
    references = ("https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/environ.py",)

    @staticmethod
    def check(server: ServerSeen) -> Outcome:
        """Report variables that turn a simulation on, and warn about those that only shape it."""
        if not server.launched:
            return Skip("the environment of an attached server cannot be seen")
        found = {k: v for k, v in server.environment.items() if SIMULATED in k and v.strip()}
        switches = {k: v for k, v in found.items() if k.endswith((LENGTH, *EXPERTS))}
        on = {k: v for k, v in switches.items() if _turns_on(k, v)}
        if on:
            told = listed([f"{key}={value}" for key, value in on.items()])
            invented = "acceptance" if any(k.endswith(LENGTH) for k in on) else "choice of experts"
            return (
                Problem(
                    message=f"{told}: the server invents its {invented}, so nothing that it "
                    "answers is judged",
                    evidence={"variables": sorted(on)},
                ),
            )
        idle = [k for k in found if k not in switches]
        if idle:
            return (
                Problem(
                    message=f"{listed(idle)} is set, without effect while *_{LENGTH} is not",
                    evidence={"variables": idle},
                    severity=Severity.WARNING,
                ),
            )
        return ()


def _turns_on(name: str, value: str) -> bool:
    """SGLang simulates acceptance above zero; what is no number is not taken for off."""
    if not name.endswith(LENGTH):
        return is_on(value)
    try:
        return float(value) > 0
    except ValueError:
        return True


def is_on(value: str) -> bool:
    """Whether SGLang takes the value of a variable for true; what it may take so counts."""
    return value.strip().lower() not in _OFF


class SRV003(Rule):
    """The server starts, and is still there after the measurements."""

    title = "The server starts and stays up"
    why = "A server that does not start, or dies under load, can serve no drafter at all."
    fix = "Read the end of the server's log, which the report quotes; `doctor` checks the machine."

    @staticmethod
    def check(server: ServerSeen) -> Outcome:
        """Report a ready server; one that failed to start is told by the gate."""
        version = f"SGLang {server.sglang}" if server.sglang else "an SGLang of unknown version"
        if server.start_seconds is None:
            return Passed(message=f"{version} answers")
        return Passed(
            message=f"{version} ready after {server.start_seconds:.0f} s",
            evidence={"start_seconds": server.start_seconds},
        )


class SRV004(Rule):
    """The KV pool is empty again once all requests are answered."""

    title = "The KV pool is whole again after the load"
    why = (
        "Releases have lost track of cache slots under speculation, above all with a page size "
        "over 1: the pool shrinks with every request until the server stops."
    )
    fix = "Update SGLang, or try --page-size 1; repeat the gate to see whether the loss grows."

    @staticmethod
    def check(pool: PoolSeen) -> Outcome:
        """Report tokens that are still in use after a flush."""
        if pool.refused:
            return (
                Problem(
                    message=f"the server does not come to rest: {pool.refused}",
                    evidence={"refused": pool.refused},
                ),
            )
        if pool.used is None:
            return Skip("this SGLang release does not tell how much of its pool is in use")
        of = f" of {pool.capacity}" if pool.capacity else ""
        if pool.used:
            return (
                Problem(
                    message=(
                        f"{pool.used}{of} tokens of the KV pool are still in use with every "
                        "request answered and the prefix cache flushed; 0 are wanted"
                    ),
                    evidence={"used": pool.used, "capacity": pool.capacity},
                ),
            )
        return Passed(message=f"0{of} tokens in use after the load", evidence={"used": 0})


class SRV010(Rule):
    """No switch that SGLang has for its own tests changes how it serves."""

    title = "SGLang's switches for tests are off"
    severity = Severity.WARNING
    why = (
        "SGLANG_IS_IN_CI and SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN let a drafter of too short "
        "a context start that a user's server refuses (CFG002): it then drafts at positions it was "
        "never trained for. SGLANG_TEST_* make a server fail, wait or retract on purpose."
    )
    fix = "Unset it, so that the server that is judged starts as the one that will be deployed."
    references = ("https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/environ.py",)

    @staticmethod
    def check(server: ServerSeen) -> Outcome:
        """Warn of each that is on; they are in the result's environment in any case."""
        if not server.launched:
            return Skip("the environment of an attached server cannot be seen")
        on = {k: v for k, v in server.environment.items() if is_on(v)}
        problems = [
            Problem(
                message=f"{name}={on[name]}: the drafter's context may be shorter than the "
                "target's, which SGLang otherwise refuses",
                evidence={"variables": [name]},
            )
            for name in (IN_CI, LONGER)
            if name in on
        ]
        tests = sorted(name for name in on if name.startswith(TEST_ONLY))
        if tests:
            problems.append(
                Problem(
                    message=f"{listed(tests)}: meant for SGLang's own tests",
                    evidence={"variables": tests},
                )
            )
        return problems


class SRV005(Rule):
    """Nobody else used an attached server while it was measured."""

    title = "The measurements are the server's only load"
    severity = Severity.WARNING
    why = (
        "Requests of others share batches and GPU time with those measured: speed is then that of "
        "an unknown load, and says nothing about the drafter."
    )
    fix = "Measure while nobody else uses the server, or let the gate launch one of its own."

    @staticmethod
    def check(traffic: TrafficSeen) -> Outcome:
        """Compare what the server counted with what was sent."""
        if not traffic.unit:
            return Skip("the server counts nothing that tells others' requests (--enable-metrics)")
        counted, ours, unit = round(traffic.counted), round(traffic.ours), traffic.unit
        spare = 0 if unit == "requests" else TOKENS_TO_SPARE + ours * SHARE_TO_SPARE
        if counted > ours + spare:
            return (
                Problem(
                    message=(
                        f"the server took {counted} {unit} meanwhile, and {ours} of them were "
                        "sent from here: the numbers are not its own"
                    ),
                    evidence={"unit": unit, "counted": counted, "ours": ours},
                ),
            )
        return Passed(message=f"no {unit} but the {ours} sent from here", evidence={"ours": ours})


RULES: tuple[type[Rule], ...] = (SRV001, SRV002, SRV003, SRV004, SRV005, SRV010)
