"""Readings of trials: replays of the drafter with one thing changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from eagle3_checks.diagnosis.evidence import Evidence
from eagle3_checks.facts import Acceptance, Trial
from eagle3_checks.verdict import Confidence

MENDS = 1.5
"""Ratio of correct drafts a verify step, with a change and without, from which on it helps; with
no floor, also what counts as mended."""
HELPS, ENOUGH = 0.5, 0.8
"""Shares of what the served accept length lacks: from the one on a change helps, from the other on
it mends. Not all of it, since trials see fewer prompts."""
LEAST = 0.15
"""Accept length that a change must win to count at all."""
RIVAL = 0.9
"""Share of the best change's win from which on another explains as much."""
NEAR = 0.12
"""Differences of all positions together, up to which a replayed fault looks as what is served."""
APART = 0.1
"""How much farther another cause must look for the nearest to be the likely one."""
EXACT, OTHER = 0.005, 0.03
"""Where next to nothing is accepted all faults look near: then one that counts as the server does
is the likely one, if the next does not."""


def mending(evidence: Evidence) -> Iterator[tuple[Trial, Confidence]]:
    """Yield the changes of the drafter that help, the best of each cause, and what they prove.

    One change that alone wins what is missing proves its cause, if no other's does as well.
    """
    trials = evidence.trials
    if trials is None:
        return
    before, missing = trials.unchanged.accept_length, _missing(evidence)
    enough = min(HELPS * missing, (MENDS - 1) * (before - 1))
    helping = [t for t in trials.repairs if t.accept_length - before >= max(LEAST, enough)]
    best = _best_of_each(helping, key=lambda t: -t.accept_length)
    if not best:
        return
    win = best[0].accept_length - before
    rivals = [t for t in best if t.accept_length - before >= RIVAL * win]
    mended = win >= ENOUGH * missing
    for trial in best:
        if trial not in rivals:
            yield trial, Confidence.SUSPECTED
        elif mended and len(rivals) == 1:
            yield trial, Confidence.PROVEN
        else:
            yield trial, Confidence.LIKELY


def _missing(evidence: Evidence) -> float:
    """Return what the served accept length lacks; infinite where nothing was asked for."""
    served = evidence.acceptance.accept_length if evidence.acceptance else None
    if served is None or evidence.floor is None:
        return float("inf")
    return evidence.floor - served.value


def refuted(evidence: Evidence, name: str) -> str:
    """Say that what would mend a cause does not help; nothing where nothing was tried."""
    trials = evidence.trials
    tried = [t for t in trials.repairs if t.cause == name] if trials else []
    if trials is None or not tried or any(t.cause == name for t, _ in mending(evidence)):
        return ""
    best = max(tried, key=lambda trial: trial.accept_length)
    return f"a replay with {best.change} reaches no more than {best.accept_length:.2f}"


def unused(evidence: Evidence) -> Iterator[Trial]:
    """Yield the inputs that make no difference, where drafts are accepted at all."""
    trials = evidence.trials
    if trials is None or trials.unchanged.accept_length < 1 + LEAST:
        return
    for trial in trials.ablations:
        if trial.per_position == trials.unchanged.per_position:
            yield trial


def closest_faults(
    evidence: Evidence, without: frozenset[str]
) -> Iterator[tuple[Trial, Confidence]]:
    """Yield the faults of a server whose replay looks as what is served, the nearest first.

    Left out are causes `without` which it is.
    """
    trials, served = evidence.trials, evidence.acceptance
    if trials is None or served is None:
        return
    open_still = [fault for fault in trials.faults if fault.cause not in without]
    near = _best_of_each(open_still, key=lambda t: _distance(t, served))
    near = [fault for fault in near if _distance(fault, served) <= NEAR]
    for place, fault in enumerate(near):
        rival = near[1 - place] if len(near) > 1 and place < 2 else None  # noqa: PLR2004
        own, next_ = (_distance(t, served) if t else float("inf") for t in (fault, rival))
        apart = next_ - own >= APART or (own <= EXACT and next_ >= OTHER)
        yield fault, Confidence.LIKELY if not place and apart else Confidence.SUSPECTED


def _distance(trial: Trial, served: Acceptance) -> float:
    """Return how far a trial is from what was served: by prompt, by position, or by length."""
    if trial.distance is not None:
        return trial.distance
    if served.per_position:
        pairs = zip(trial.per_position, served.per_position, strict=False)
        return sum(abs(one - other) for one, other in pairs)
    if served.accept_length is None:
        return float("inf")
    return abs(trial.accept_length - served.accept_length.value)


def _best_of_each(trials: Iterable[Trial], key: Callable[[Trial], float]) -> list[Trial]:
    best: dict[str, Trial] = {}
    for trial in sorted(trials, key=key):
        best.setdefault(trial.cause, trial)
    return list(best.values())
