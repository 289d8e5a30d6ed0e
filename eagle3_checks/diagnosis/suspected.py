"""Causes that no rule has found: what would explain too few accepted drafts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eagle3_checks.diagnosis import figures
from eagle3_checks.diagnosis.evidence import Evidence
from eagle3_checks.diagnosis.trials import closest_faults, mending, unused
from eagle3_checks.facts import Acceptance, Interval, Trial
from eagle3_checks.verdict import Confidence

GAIN = 1.5
"""Ratio of correct drafts a verify step from which on a replay is far above what was served."""
COVERED = 0.8
"""Share of the target's tokens in the draft vocabulary, below which that alone costs much."""


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A cause by name, and why."""

    name: str
    confidence: Confidence
    why: tuple[str, ...]
    against: tuple[str, ...] = ()


def suspects(evidence: Evidence) -> Iterator[Suspect]:
    """Yield what would explain the acceptance, the likelier first; nothing where there is none."""
    served = evidence.acceptance
    if served is None or served.accept_length is None:
        return
    yield from _by_prompts(served)
    replay, length = _replay(evidence), served.accept_length.value
    if replay is None:
        yield from _without_replay(evidence, served)
    elif served_worse(evidence, replay):
        gap = (
            f"the reference reaches {replay.accept_length:.2f} with the drafter's own files, the "
            f"server {length:.2f}"
        )
        yield from _wiring(evidence, served.per_position, replay, gap)
    else:
        low = _low(replay, length)
        yield from _drafter(evidence, served.accept_rate, replay, low)


def served_worse(evidence: Evidence, replay: Trial) -> bool:
    """Whether the reference gets far more of the drafter than the server does."""
    served = evidence.acceptance.accept_length if evidence.acceptance else None
    if served is None:
        return False
    if evidence.floor and served.value < evidence.floor <= replay.accept_length:
        return True
    return replay.accept_length > max(served.high, 1 + GAIN * (served.value - 1))


def as_low(evidence: Evidence) -> str:
    """Say that the reference gets no more of the drafter than the server, or nothing."""
    served = evidence.acceptance.accept_length if evidence.acceptance else None
    replay = _replay(evidence)
    if served is None or replay is None or served_worse(evidence, replay):
        return ""
    return _low(replay, served.value)


def _low(replay: Trial, served: float) -> str:
    return (
        f"the reference reaches {replay.accept_length:.2f} with the drafter's files, the server "
        f"{served:.2f}: the server does what the files say"
    )


def _replay(evidence: Evidence) -> Trial | None:
    if evidence.trials:
        return evidence.trials.unchanged
    replayed = evidence.replayed.acceptance if evidence.replayed else None
    if replayed is None or replayed.accept_length is None:
        return None
    return Trial(
        name="unchanged",
        cause="",
        change="",
        accept_length=replayed.accept_length.value,
        per_position=replayed.per_position or (),
    )


def _by_prompts(served: Acceptance) -> Iterator[Suspect]:
    by_length, by_set = figures.falls(served.by_prompt_tokens), figures.differs(served.by_set)
    if by_length:
        for name in ("rope", "context"):
            yield Suspect(name=name, confidence=Confidence.SUSPECTED, why=(by_length,))
    if by_set:
        yield Suspect(name="prompts", confidence=Confidence.SUSPECTED, why=(by_set,))


def _without_replay(evidence: Evidence, served: Acceptance) -> Iterator[Suspect]:
    shares, rate = served.per_position, served.accept_rate
    told = (figures.band(rate.value),) if rate else ()
    open_still = not all(evidence.passed(code) for code in WIRED)
    if not open_still:
        told = ("the wiring is right, as far as rules can see it: files or weights are at fault",)
    unknown = "no replay tells the drafter's weights from the server's wiring"
    wiring = Suspect(
        name="wiring",
        confidence=Confidence.SUSPECTED,
        why=told if open_still else (),
        against=(*_sound(evidence),),
    )
    training = Suspect(
        name="training", confidence=Confidence.SUSPECTED, why=told, against=(unknown,)
    )
    low = open_still and (rate is None or rate.value < figures.TRAINED)
    yield from (wiring, training) if low else (training, wiring)
    if figures.first_alone_is_bad(shares):
        why = ("later drafts fare well once the first is right",)
        yield Suspect(name="alignment", confidence=Confidence.SUSPECTED, why=why)
    if figures.breaks_after_first(shares):
        why = ("the first drafts fare well, those after them do not",)
        for name in ("positions", "unroll"):
            yield Suspect(name=name, confidence=Confidence.SUSPECTED, why=why)


WIRED = ("WIR001", "WIR002", "WIR003", "WIR004", "WIR006")
"""Rules that together prove the wiring, up to the drafter's own weights."""
LOOKED_AT = {
    "aux-layers": "WIR004",
    "aux-order": "WIR004",
    "residual": "WIR004",
    "fusion": "WIR003",
    "embedding": "WIR006",
}
"""Causes that a rule looks for inside the server: where it passes, it is not that."""


def _sound(evidence: Evidence) -> Iterator[str]:
    """Yield what the probe saw to be right."""
    if evidence.passed("WIR001") and evidence.passed("WIR002"):
        yield "every tensor was loaded, and no parameter left unset"
    if evidence.passed("WIR003"):
        yield "fc fused all aux states"
    if evidence.passed("WIR004"):
        yield "the aux states are the target's true ones"
    if evidence.passed("WIR006"):
        yield "embedding and head are the right ones"


def _wiring(
    evidence: Evidence, shares: tuple[float, ...] | None, replay: Trial, gap: str
) -> Iterator[Suspect]:
    refuted = {cause for cause, code in LOOKED_AT.items() if evidence.passed(code)}
    for fault, confidence in closest_faults(evidence, without=frozenset(refuted)):
        why = f"a replay with {fault.change} reaches {fault.accept_length:.2f}"
        yield Suspect(name=fault.cause, confidence=confidence, why=(gap, why))
    if figures.breaks_after_first(shares) and not figures.breaks_after_first(replay.per_position):
        why = "the first drafts fare well in the server, those after them do not"
        yield Suspect(name="positions", confidence=Confidence.SUSPECTED, why=(gap, why))
    sound = tuple(_sound(evidence))
    yield Suspect(name="wiring", confidence=Confidence.LIKELY, why=(gap,), against=sound)


def _drafter(
    evidence: Evidence, rate: Interval | None, replay: Trial, low: str
) -> Iterator[Suspect]:
    for trial, confidence in mending(evidence):
        why = f"a replay with {trial.change} reaches {trial.accept_length:.2f}"
        yield Suspect(name=trial.cause, confidence=confidence, why=(low, why))
    for trial in unused(evidence):
        why = f"a replay with {trial.change} drafts the same tokens"
        yield Suspect(name=trial.cause, confidence=Confidence.LIKELY, why=(low, why))
    coverage = evidence.trials.coverage if evidence.trials else 1.0
    if coverage < COVERED:
        why = f"the draft vocabulary holds {coverage:.0%} of what the target says"
        yield Suspect(name="vocabulary", confidence=Confidence.LIKELY, why=(low, why))
    if figures.first_alone_is_bad(replay.per_position):
        why = "later drafts fare well once the first is right"
        yield Suspect(name="alignment", confidence=Confidence.SUSPECTED, why=(low, why))
    if figures.breaks_after_first(replay.per_position):
        why = "the first drafts fare well, those after them do not"
        yield Suspect(name="unroll", confidence=Confidence.SUSPECTED, why=(low, why))
    told = [low, figures.band(rate.value)] if rate else [low]
    tried = bool(evidence.trials and evidence.trials.repairs)
    if tried:
        told.append("no change of one setting or tensor mends it")
    yield Suspect(
        name="training",
        confidence=Confidence.LIKELY if tried else Confidence.SUSPECTED,
        why=tuple(told),
    )
