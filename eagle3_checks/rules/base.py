"""How a rule is declared and run.

A rule is a class whose name is its code. Its ``check`` takes the facts it needs **by argument
name** (see `Facts`) and yields problems; a fact that is not there skips the rule with that reason,
and so does a prerequisite (``requires``) that failed. A fact with a default is one the rule can do
without. A rule that cannot apply returns `Skip`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from graphlib import TopologicalSorter
from typing import Any, ClassVar

from eagle3_checks.checkpoint.values import VocabMap
from eagle3_checks.contract.version import Contract
from eagle3_checks.facts import (
    Acceptance,
    BaselineSeen,
    Comparison,
    Corner,
    DraftConfig,
    Looping,
    Manifest,
    Parity,
    PoolSeen,
    ServerSeen,
    TargetConfig,
    TensorValues,
    Throughput,
    Tokenizer,
    TrafficSeen,
    TrueStates,
    Wiring,
)
from eagle3_checks.profile import Floors, Server, Speculation
from eagle3_checks.verdict import Finding, Judgements, Severity, Status


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything a rule may ask for; None where a stage has not run."""

    manifest: Manifest | None = None
    draft: DraftConfig | None = None
    vocab: VocabMap | None = None
    target: TargetConfig | None = None
    contract: Contract | None = None
    speculation: Speculation | None = None
    serving: Server | None = None
    """The profile's server table; None where it is not known how the drafter will be served."""
    tokenizer: Tokenizer | None = None
    values: TensorValues | None = None
    server: ServerSeen | None = None
    wiring: Wiring | None = None
    true_states: TrueStates | None = None
    corners: Mapping[str, Corner] | None = None
    acceptance: Acceptance | None = None
    judgements: Judgements | None = None
    baseline: BaselineSeen | None = None
    parity: Parity | None = None
    looping: Looping | None = None
    against_plain: Comparison | None = None
    throughput: Throughput | None = None
    compared: Throughput | None = None
    hardware: str | None = None
    pool: PoolSeen | None = None
    traffic: TrafficSeen | None = None
    floors: Floors | None = None


WHERE_FROM: Mapping[str, str] = {
    "manifest": "the drafter's safetensors headers",
    "draft": "the drafter's config.json",
    "vocab": "the values of d2t and t2d",
    "target": "the target's config.json (--target)",
    "contract": "a known SGLang version",
    "speculation": "the speculation flags of a profile",
    "serving": "the server flags of a profile",
    "tokenizer": "the target's tokenizer files (--target)",
    "values": "--values",
    "server": "a running server",
    "wiring": "the probe inside a launched server",
    "corners": "the drafter's weights",
    "true_states": "the target's true hidden states",
    "acceptance": "measured acceptance",
    "judgements": "what is certain of the measured acceptance",
    "baseline": "a recorded run (--eagle3-baseline)",
    "parity": "answers that were looked at for losslessness",
    "against_plain": "answers of a server without speculation (--eagle3-compare-base)",
    "looping": "the answers by which acceptance was measured",
    "throughput": "measured throughput",
    "compared": "throughput against a server without speculation (--eagle3-compare-base)",
    "hardware": "the name of the GPU",
    "pool": "the KV pool of a launched server after the load",
    "traffic": "the counters of an attached server",
    "floors": "the floors of a profile",
}


STATIC_FACTS = frozenset(
    {
        "manifest",
        "draft",
        "vocab",
        "target",
        "contract",
        "speculation",
        "serving",
        "tokenizer",
        "values",
    }
)
"""Facts that files and flags alone give: rules that need no others run before a server starts."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing a rule found wrong."""

    message: str
    """Names the tensor or field, the value seen, and the value wanted with its formula."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    fix: str = ""
    """What to do next; the rule's own `fix` where empty."""
    severity: Severity | None = None
    """The rule's own where None."""
    inconclusive: bool = False


@dataclass(frozen=True)
class Skip:
    """Why a rule does not apply."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Passed:
    """A pass that has figures to show."""

    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


Outcome = Iterable[Problem] | Skip | Passed


class Rule:
    """Base of all rules: the declaration. Subclasses add ``check``."""

    title: ClassVar[str]
    severity: ClassVar[Severity] = Severity.ERROR
    why: ClassVar[str]
    fix: ClassVar[str]
    references: ClassVar[tuple[str, ...]] = ()
    requires: ClassVar[tuple[str, ...]] = ()

    check: ClassVar[Callable[..., Outcome]]

    @classmethod
    def code(cls) -> str:
        """Return the stable code, e.g. KEY001."""
        return cls.__name__

    @classmethod
    def family(cls) -> str:
        """Return the three letters a code starts with."""
        return cls.__name__[:3]

    @classmethod
    def takes(cls) -> tuple[str, ...]:
        """Return the names of the facts that ``check`` takes."""
        return tuple(inspect.signature(cls.check).parameters)

    @classmethod
    def needs(cls) -> tuple[str, ...]:
        """Return the names of the facts without which the rule is skipped."""
        parameters = inspect.signature(cls.check).parameters.values()
        return tuple(p.name for p in parameters if p.default is inspect.Parameter.empty)


def run_rule(
    rule: type[Rule], facts: Facts, absent: Mapping[str, str] | None = None
) -> tuple[Finding, ...]:
    """Run one rule: a FAIL finding per problem, else a single PASS or SKIP.

    `absent` says why a fact is missing, by its name.
    """
    missing = [name for name in rule.needs() if getattr(facts, name) is None]
    if missing:
        known = next((absent[name] for name in missing if absent and absent.get(name)), None)
        return (skipped(rule, known or "needs " + " and ".join(WHERE_FROM[m] for m in missing)),)
    given = {name: getattr(facts, name) for name in rule.takes()}
    outcome = rule.check(**{name: fact for name, fact in given.items() if fact is not None})
    if isinstance(outcome, Skip):
        return (_finding(rule, Status.SKIP, outcome.reason),)
    if isinstance(outcome, Passed):
        return (_finding(rule, Status.PASS, outcome.message, outcome.evidence),)
    problems = tuple(outcome)
    if not problems:
        return (_finding(rule, Status.PASS, rule.title),)
    return tuple(
        _finding(
            rule,
            Status.INCONCLUSIVE if problem.inconclusive else Status.FAIL,
            problem.message,
            problem.evidence,
            fix=problem.fix or rule.fix,
            severity=problem.severity,
        )
        for problem in problems
    )


def run_rules(rules: Iterable[type[Rule]], facts: Facts) -> tuple[Finding, ...]:
    """Run rules in the order of their prerequisites; dependants of a failed one are skipped."""
    known = {rule.code(): rule for rule in rules}
    graph = {code: {r for r in rule.requires if r in known} for code, rule in known.items()}
    outcomes: dict[str, tuple[Finding, ...]] = {}
    for code in TopologicalSorter(graph).static_order():
        failed = next((r for r in sorted(graph[code]) if _blocks(outcomes[r])), None)
        if failed is None:
            outcomes[code] = run_rule(known[code], facts)
        else:
            outcomes[code] = (_finding(known[code], Status.SKIP, f"{failed} failed"),)
    return tuple(finding for code in known for finding in outcomes[code])


def skipped(rule: type[Rule], reason: str) -> Finding:
    """Return the finding of a rule that did not apply or could not run."""
    return _finding(rule, Status.SKIP, reason)


def unjudged(rule: type[Rule], message: str) -> Finding:
    """Return the finding of a rule on which the run ended without an answer."""
    return _finding(rule, Status.INCONCLUSIVE, message, fix=rule.fix)


def fact_names() -> Iterator[str]:
    """Yield the names a rule's ``check`` may take."""
    yield from (f.name for f in fields(Facts))


def _blocks(findings: tuple[Finding, ...]) -> bool:
    return any(f.is_error for f in findings)


def _finding(  # noqa: PLR0913 - one call site a status
    rule: type[Rule],
    status: Status,
    message: str,
    evidence: Mapping[str, Any] | None = None,
    *,
    fix: str = "",
    severity: Severity | None = None,
) -> Finding:
    return Finding(
        code=rule.code(),
        family=rule.family(),
        severity=severity or rule.severity,
        status=status,
        title=rule.title,
        message=_printable(message),
        evidence=evidence or {},
        fix=_printable(fix),
        docs=f"docs/rules/{rule.code()}.md",
    )


def _printable(text: str) -> str:
    """Escape control characters: names come from files, and end up in terminals."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
