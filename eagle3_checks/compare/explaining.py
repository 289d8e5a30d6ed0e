"""Which of the differences explain what changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eagle3_checks.compare.changes import Change, changes
from eagle3_checks.compare.differences import LENGTH, SPEED, Difference, differences

SYMPTOMS = ("ACC", "LOS", "SPD")
"""Families that measure what the others explain."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What one kind of change comes from, as far as the results tell."""

    kind: str
    causes: tuple[str, ...]
    text: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two results and all that is said of them."""

    first: Mapping[str, Any]
    second: Mapping[str, Any]
    changes: tuple[Change, ...]
    differences: tuple[Difference, ...]
    explanations: tuple[Explanation, ...]


def compare(first: Mapping[str, Any], second: Mapping[str, Any]) -> Comparison:
    """Compare two results; one that is not whole raises LookupError, TypeError, AttributeError."""
    seen, found = changes(first, second), differences(first, second)
    return Comparison(
        first=first,
        second=second,
        changes=seen,
        differences=found,
        explanations=explanations(seen, found, first, second),
    )


def explanations(
    changed: Sequence[Change],
    found: Sequence[Difference],
    first: Mapping[str, Any],
    second: Mapping[str, Any],
) -> tuple[Explanation, ...]:
    """Explain each kind of figure that changed; nothing where none did."""
    kinds = [k for k in (LENGTH, SPEED) if any(c.changed and c.kind == k for c in changed)]
    return tuple(_explain(kind, kinds, found, first, second) for kind in kinds)


def new_errors(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the errors of the second run that the first has not, symptoms left out."""
    old = {f["code"] for f in first["findings"] if _is_error(f)}
    for finding in second["findings"]:
        if _is_error(finding) and finding["code"] not in old and finding["family"] not in SYMPTOMS:
            yield finding


def _is_error(finding: Mapping[str, Any]) -> bool:
    return (finding["status"], finding["severity"]) == ("fail", "error")


def _explain(
    kind: str,
    kinds: Sequence[str],
    found: Sequence[Difference],
    first: Mapping[str, Any],
    second: Mapping[str, Any],
) -> Explanation:
    able = tuple(d.name for d in found if kind in d.moves)
    if kind == SPEED and LENGTH in kinds:
        alone = [d.name for d in found if d.moves == {SPEED}]
        text = "it goes with the acceptance"
        if alone:
            text += f"; besides, {_listed(alone)} can move it"
        return Explanation(kind=kind, causes=able, text=text)
    if not able:
        text = "nothing that the results hold explains it; what they do not hold may: other load"
        text += " on the machine, clocks, the build of the kernels"
        return Explanation(kind=kind, causes=(), text=text)
    codes = sorted({f["code"] for f in (*new_errors(first, second), *new_errors(second, first))})
    if len(able) == 1:
        text = f"{able[0]}, the only thing that differs and can move it"
    else:
        text = f"{_listed(able)} differ at once and cannot be told apart; run the second again "
        text += "with one of them as in the first"
    if codes:
        text += f"; the findings point to it: {', '.join(codes)}"
    return Explanation(kind=kind, causes=able, text=text)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]
