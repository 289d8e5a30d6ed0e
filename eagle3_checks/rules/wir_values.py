"""WIR: whether the values that reach the drafter are those it was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eagle3_checks.contract.version import Contract
from eagle3_checks.facts import DraftConfig, StatesSeen, TargetConfig, TrueStates, Wiring
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.captured import resolved
from eagle3_checks.rules.states import (
    Candidates,
    Kind,
    Match,
    candidates,
    identify,
    seen_vectors,
    sums_up,
    tolerance,
)
from eagle3_checks.rules.text import counted, ids

DOCS = "docs/wiring.md"


class WIR004(Rule):
    """The aux states are the target's true ones: the right layers, whole, in their order."""

    title = "The aux states are those of the layers asked for"
    why = (
        "States of a neighbouring layer, in another order, without their residual or before their "
        "sum over the ranks have the right width: nothing complains, every answer is right, and "
        "the drafter guesses from inputs it has never seen."
    )
    fix = "Serve with another SGLang version, and report the divergence with this message."
    references = (
        DOCS,
        "https://github.com/sgl-project/sglang/pull/39286",
        "https://github.com/sgl-project/sglang/pull/28343",
        "https://github.com/sgl-project/sglang/pull/25454",
    )
    requires = ("WIR003",)

    @staticmethod
    def check(
        wiring: Wiring,
        draft: DraftConfig,
        target: TargetConfig,
        contract: Contract,
        true_states: TrueStates,
    ) -> Outcome:
        """Find each aux state among all states of the target, by its projections."""
        capture = resolved(draft, target, contract)
        if isinstance(capture, Skip):
            return capture
        ranks = _by_rank(wiring, true_states)
        if not ranks:
            return Skip("the probe saw no prompt for which true states are known")
        seen = next(iter(ranks.values()))
        prompts = [s.tokens for s in seen]
        among, vectors = candidates(true_states, prompts), seen_vectors(seen)
        expected = capture.boundaries
        if len(vectors) != len(expected):
            message = f"{counted(len(vectors), 'aux state')} of {len(expected)} arrived"
            return (Problem(message=message, evidence={"width": seen[0].width}),)
        limit = tolerance(seen[0].dtype)
        found = [identify(v, b, among, limit) for v, b in zip(vectors, expected, strict=True)]
        evidence = _evidence(expected, found, true_states)
        wrong = _wrong(expected, found, _add_up(ranks, among, expected, limit))
        if wrong:
            return (Problem(message=wrong, evidence=evidence),)
        return Passed(
            message=(
                f"they are what enters layers {ids(expected)}, within "
                f"{max(m.distance for m in found):.1g} of {true_states.source} "
                f"({counted(sum(map(len, prompts)), 'token')})"
            ),
            evidence=evidence,
        )


def _by_rank(wiring: Wiring, true: TrueStates) -> dict[int, list[StatesSeen]]:
    """Return what each rank saw of the prompts whose true states are known, the first rank first.

    Ranks that saw other prompts than the first are left out.
    """
    ranks: dict[int, list[StatesSeen]] = {}
    for seen in wiring.states:
        if seen.tokens in true.states and seen.states:
            ranks.setdefault(seen.rank, []).append(seen)
    ordered = dict(sorted(ranks.items()))
    first = [s.tokens for s in next(iter(ordered.values()), [])]
    return {rank: seen for rank, seen in ordered.items() if [s.tokens for s in seen] == first}


def _add_up(
    ranks: Mapping[int, Sequence[StatesSeen]],
    among: Candidates,
    expected: Sequence[int],
    limit: float,
) -> bool:
    """Whether the ranks' states are parts that sum up to what was expected."""
    vectors = [seen_vectors(seen) for seen in ranks.values()]
    if len(vectors) < 2:  # noqa: PLR2004 - a sum has two parts or more
        return False
    return all(sums_up([v[i] for v in vectors], b, among, limit) for i, b in enumerate(expected))


def _wrong(expected: Sequence[int], found: Sequence[Match], sums: bool) -> str:  # noqa: FBT001
    """Say what the states are where they are not the expected ones, or nothing."""
    boundaries = [m.boundary for m in found]
    if all(m.kind is Kind.STATE for m in found):
        if boundaries == list(expected):
            return ""
        return _displaced(expected, boundaries)
    if sums:
        return (
            "the aux states are unfinished sums: those of all ranks add up to what enters layers "
            f"{ids(expected)}, so they were taken before the all-reduce"
        )
    if all(m.kind is Kind.OUTPUT for m in found):
        return (
            "the aux states lack their residual: they are what the feed-forward parts before "
            f"layers {ids(boundaries)} add to it, alone"
        )
    told = [
        _one(number, wanted, match)
        for number, (wanted, match) in enumerate(zip(expected, found, strict=True), start=1)
        if match.kind is not Kind.STATE or match.boundary != wanted
    ]
    return "; ".join(told)


def _displaced(expected: Sequence[int], found: Sequence[int]) -> str:
    if sorted(found) == sorted(expected):
        return (
            f"the aux states come in the order of layers {ids(found)}; SGLang hands over "
            f"{ids(expected)}, and fc was trained on that order"
        )
    steps = {f - e for f, e in zip(found, expected, strict=True)}
    told = f"the aux states are what enters layers {ids(found)}, not {ids(expected)}"
    if len(steps) > 1:
        return told
    step = steps.pop()
    return f"{told}: {counted(abs(step), 'layer')} too {'late' if step > 0 else 'early'}"


def _one(number: int, wanted: int, match: Match) -> str:
    told = {
        Kind.STATE: f"is what enters layer {match.boundary}",
        Kind.OUTPUT: f"lacks its residual: it is what the layer before {match.boundary} adds",
        Kind.SCALED: (
            f"is {match.factor:.3g} times what enters layer {wanted}, as a sum over ranks that was "
            "not finished, or a scale that was applied twice"
        ),
        Kind.UNFINISHED: (
            f"is an unfinished sum: of what enters layer {wanted} it lacks a part of what the "
            "feed-forward part before it adds, as before an all-reduce"
        ),
        Kind.UNKNOWN: (
            f"fits no layer: the nearest is what enters layer {match.boundary}, "
            f"{100 * match.distance:.0f} % off"
        ),
    }[match.kind]
    return f"aux state {number}, for what enters layer {wanted}, {told}"


def _evidence(expected: Sequence[int], found: Sequence[Match], true: TrueStates) -> dict[str, Any]:
    return {
        "expected": list(expected),
        "found": [{"kind": m.kind.value, "layer": m.boundary, "off": m.distance} for m in found],
        "reference": true.source,
    }


RULES: tuple[type[Rule], ...] = (WIR004,)
