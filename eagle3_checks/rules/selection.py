"""Which findings count: ``--select CODE[,CODE]`` and ``--ignore CODE=reason``.

A code may be cut short: ``KEY`` means the whole family. What is ignored is still judged and shown,
with the reason it is ignored for; it no longer decides a verdict.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from eagle3_checks.rules.base import Facts, Rule, run_rule, run_rules
from eagle3_checks.rules.registry import all_rules
from eagle3_checks.verdict import Finding, Status

IGNORED = "ignored"
"""Key in a finding's evidence that holds the reason it is ignored for."""
_SHORTEST = 3
_ANOTHER = re.compile(r",\s*[A-Za-z]{3}\d*\s*=")
"""A second code inside a reason, which would be ignored by nobody."""


class SelectionError(ValueError):
    """A code that no rule has, or a reason that is missing; the message says what to write."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What is judged, and what of it is ignored; everything counts by default."""

    selected: tuple[str, ...] = ()
    """Starts of codes; empty selects all."""
    ignored: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Reasons by start of code; the longest that fits counts."""

    def takes(self, code: str) -> bool:
        """Whether a rule is selected."""
        return not self.selected or code.startswith(self.selected)

    def reason(self, code: str) -> str | None:
        """Return why a rule is ignored, or None."""
        fitting = [start for start in self.ignored if code.startswith(start)]
        return self.ignored[max(fitting, key=len)] if fitting else None


def parse_selection(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> Selection:
    """Read the values of the options, each given any number of times; raises SelectionError."""
    codes: list[str] = []
    for value in select:
        found = [code.strip() for code in value.split(",") if code.strip()]
        if not found:
            raise SelectionError("--select names no code; write it as in --select KEY,FUS001")
        codes += found
    reasons: dict[str, str] = {}
    for value in ignore:
        code, _, reason = value.partition("=")
        if not reason.strip():
            raise SelectionError(
                f"--ignore {value}: the reason is missing; write it as in "
                f"--ignore {code.strip() or 'KEY001'}='why it may be so'"
            )
        if _ANOTHER.search(reason):
            raise SelectionError(f"--ignore {value}: give --ignore once for each code")
        reasons[_known(code.strip(), "--ignore")] = reason.strip()
    return Selection(
        selected=tuple(_known(code, "--select") for code in codes),
        ignored=MappingProxyType(reasons),
    )


def run_selected(
    rules: Sequence[type[Rule]], facts: Facts, selection: Selection
) -> tuple[Finding, ...]:
    """Run rules and apply a selection; what is ignored does not hold back what builds on it."""
    counting = [rule for rule in rules if selection.reason(rule.code()) is None]
    outcomes: dict[str, list[Finding]] = {rule.code(): [] for rule in rules}
    for finding in run_rules(counting, facts):
        outcomes[finding.code].append(finding)
    for rule in rules:
        if rule not in counting:
            outcomes[rule.code()].extend(run_rule(rule, facts))
    return apply(selection, [finding for found in outcomes.values() for finding in found])


def apply(selection: Selection, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Keep what is selected and mark what is ignored.

    A failed prerequisite stays where a selected rule was skipped for it: it is the reason why there
    is no answer.
    """
    marked = [_mark(selection, finding) for finding in findings]
    skipped = {f.code for f in marked if selection.takes(f.code) and f.status is Status.SKIP}
    needed = _prerequisites(skipped)
    return tuple(f for f in marked if selection.takes(f.code) or (f.is_error and f.code in needed))


def _mark(selection: Selection, finding: Finding) -> Finding:
    reason = selection.reason(finding.code)
    if reason is None or finding.status not in (Status.FAIL, Status.INCONCLUSIVE):
        return finding
    return replace(
        finding,
        status=Status.SKIP,
        message=f"ignored ({reason}): {finding.message}",
        evidence={**finding.evidence, IGNORED: reason},
    )


def _prerequisites(codes: Iterable[str]) -> set[str]:
    requires = {rule.code(): rule.requires for rule in all_rules()}
    found: set[str] = set()
    waiting = list(codes)
    while waiting:
        new = set(requires.get(waiting.pop(), ())) - found
        found |= new
        waiting += new
    return found


def _known(code: str, option: str) -> str:
    """Return a code or its start in capitals; SelectionError names the nearest where none fits."""
    wanted = code.upper()
    codes = [rule.code() for rule in all_rules()]
    if len(wanted) >= _SHORTEST and any(known.startswith(wanted) for known in codes):
        return wanted
    raise SelectionError(f"{option} {code}: no rule has this code; {hint(code)}")


def hint(code: str) -> str:
    """Say which code may be meant: the nearest, or else the families."""
    wanted, codes = code.strip().upper(), [rule.code() for rule in all_rules()]
    families = sorted({rule.family() for rule in all_rules()})
    near = difflib.get_close_matches(wanted, [*codes, *families], n=1, cutoff=0.5)
    return f"the nearest is {near[0]}" if near else f"the families are {', '.join(families)}"
