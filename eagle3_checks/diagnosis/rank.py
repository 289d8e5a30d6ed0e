"""The diagnosis: what rules have found, then what would explain the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from eagle3_checks.diagnosis.catalogue import CAUSES, REPLAY
from eagle3_checks.diagnosis.evidence import Evidence
from eagle3_checks.diagnosis.found import SYMPTOMS, bears, found, steps
from eagle3_checks.diagnosis.suspected import as_low, suspects
from eagle3_checks.diagnosis.trials import refuted
from eagle3_checks.verdict import Cause, Confidence, Finding, Step

OF_WEIGHTS = ("VAL", "KEY")
_ORDER = (Confidence.PROVEN, Confidence.LIKELY, Confidence.SUSPECTED)


def diagnose(evidence: Evidence) -> tuple[Cause, ...]:
    """Return the causes of what failed, the first the most certain.

    A cause without proof names the others that would explain the same as evidence against it.
    """
    known = found(evidence)
    proven = [c for c in known if c.confidence is Confidence.PROVEN]
    warned = [c for c in known if c not in proven]
    if proven or not evidence.low:
        return (*proven, *warned, *_unexplained(evidence, known))
    causes = [*(c for c in warned if bears(c)), *_conjectures(evidence, warned)]
    tried = [_tried(cause, evidence) for cause in _merged(causes)]
    tried.sort(key=lambda known: (_ORDER.index(known[0].confidence), known[1]))
    ranked = [cause for cause, _ in tried] or list(_unexplained(evidence, known))
    if evidence.acceptance and not (evidence.replayed or evidence.trials):
        ranked[0] = replace(ranked[0], next_steps=(_replay(evidence), *ranked[0].next_steps))
    return (*_with_alternatives(ranked), *(c for c in warned if not bears(c)))


def _replay(evidence: Evidence) -> Step:
    return Step(
        what="Replay the drafter on the target's true states: it tells weights from wiring.",
        command=evidence.subject.command(REPLAY),
    )


def _tried(cause: Cause, evidence: Evidence) -> tuple[Cause, bool]:
    """Return a cause with what a replay says of it, and whether it speaks against it.

    What a rule has warned of in the weights is likely where the reference does no better with them.
    """
    against = refuted(evidence, cause.name)
    if not against:
        alike = as_low(evidence)
        if not alike or cause.code[:3] not in OF_WEIGHTS:
            return cause, False
        surer = min(cause.confidence, Confidence.LIKELY, key=_ORDER.index)
        why = (*cause.evidence_for, alike)
        return replace(cause, confidence=surer, evidence_for=tuple(dict.fromkeys(why))), False
    return replace(cause, evidence_against=(*cause.evidence_against, against)), True


def _conjectures(evidence: Evidence, warned: list[Cause]) -> Iterator[Cause]:
    """Yield what would explain the acceptance, as causes; a warning lends its finding."""
    symptom = evidence.low[0]
    for suspect in suspects(evidence):
        finding = next((c for c in warned if c.name == suspect.name), None)
        yield Cause(
            name=suspect.name,
            code=finding.code if finding else symptom.code,
            message=finding.message if finding else CAUSES[suspect.name].title,
            fix=finding.fix if finding else "",
            confidence=suspect.confidence,
            evidence_for=suspect.why,
            evidence_against=suspect.against,
            next_steps=steps(suspect.name, evidence),
        )


def _merged(causes: list[Cause]) -> list[Cause]:
    """Join the causes of one name: the surest stays, with the evidence of all."""
    by_name: dict[str, Cause] = {}
    for cause in causes:
        other = by_name.get(cause.name)
        if other is None:
            by_name[cause.name] = cause
            continue
        by_name[cause.name] = replace(
            other,
            confidence=min(other.confidence, cause.confidence, key=_ORDER.index),
            evidence_for=_all(other.evidence_for, cause.evidence_for),
            evidence_against=_all(other.evidence_against, cause.evidence_against),
        )
    return list(by_name.values())


def _with_alternatives(causes: list[Cause]) -> Iterator[Cause]:
    """Yield the causes, each that is not proven with those that would explain the same."""
    for cause in causes:
        others = [c.name for c in causes if c.name != cause.name]
        if cause.confidence is Confidence.PROVEN or not others:
            yield cause
        else:
            told = f"it could also be: {', '.join(others)}"
            yield replace(cause, evidence_against=(*cause.evidence_against, told))


def _unexplained(evidence: Evidence, known: list[Cause]) -> Iterator[Cause]:
    """Yield symptoms that nothing found explains, as speed where acceptance is as asked."""
    if any(bears(cause) for cause in known):
        return
    yield from (_symptom(f, evidence) for f in evidence.failed() if f.code in SYMPTOMS)


def _symptom(finding: Finding, evidence: Evidence) -> Cause:
    name = "draft-cost" if finding.family == "SPD" else "unexplained"
    return Cause(
        name=name,
        code=finding.code,
        message=finding.message,
        fix=finding.fix,
        confidence=Confidence.SUSPECTED,
        evidence_for=(finding.title,),
        next_steps=steps(name, evidence),
    )


def _all(*parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for part in parts for text in part))
