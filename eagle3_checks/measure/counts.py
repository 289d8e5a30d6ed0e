"""One request's acceptance counts, by the names that its SGLang version uses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from eagle3_checks.contract.metrics import MetaNames
from eagle3_checks.facts import RequestSample
from eagle3_checks.measure.client import Answer
from eagle3_checks.profile import Speculation

TOLERANCE = 1e-6


def sample(answer: Answer, names: MetaNames, speculation: Speculation) -> RequestSample:
    """Read one answer's counts.

    SGLang leaves the keys out where no verify step took place, which counts as zero steps.
    """
    meta = answer.meta
    told = _count(meta, names.verify)
    steps = told or 0
    completion = _count(meta, "completion_tokens") or 0
    correct = _count(meta, names.correct)
    if correct is None:
        correct = _recovered(meta, names, steps * speculation.steps)
    if correct is None:
        correct = max(0, completion - 1 - steps) if steps else 0
    proposed = _count(meta, names.proposed)
    if proposed is None:
        proposed = steps * (speculation.draft_tokens - 1)
    histogram = meta.get(names.histogram) if names.histogram else None
    counted = isinstance(histogram, list) and all(type(h) is int for h in histogram)
    return RequestSample(
        prompt_id=answer.prompt.id,
        prompt_set=answer.prompt.set,
        prompt_tokens=_count(meta, "prompt_tokens") or 0,
        completion_tokens=completion,
        verify_steps=steps,
        correct_drafts=correct,
        proposed_drafts=proposed,
        histogram=tuple(histogram) if counted and isinstance(histogram, list) else None,
        text=answer.text,
        reported=told is not None,
    )


def unreported(names: MetaNames, version: str) -> Iterator[str]:
    """Name the figures this version does not report, and what stands in for them."""
    if names.correct is None and _rate_tells(names):
        yield (
            f"SGLang {version} reports no number of correct drafts (0.5.6 is the first): it is "
            f"taken from {names.accept_rate} x verify steps x steps"
        )
    elif names.correct is None:
        yield (
            f"SGLang {version} reports no number of correct drafts (0.5.6 is the first): it is "
            "completion tokens - 1 - verify steps, low by what was cut at the end of an answer"
        )
    if names.histogram is None:
        yield (
            f"SGLang {version} reports no histogram of correct drafts (0.5.9 is the first): no "
            "acceptance by position"
        )


def lacking(seen: RequestSample, meta: Mapping[str, Any], names: MetaNames) -> Iterator[str]:
    """Name the keys that this version gives with every verify step, and this answer has not."""
    if not seen.verify_steps:
        return
    for name in (names.correct, names.proposed):
        if name and _count(meta, name) is None:
            yield name
    if names.histogram and seen.histogram is None:
        yield names.histogram


def contradictions(s: RequestSample, speculation: Speculation) -> Iterable[str]:
    """Identities between one request's counts that do not hold (facts: SGLang PR 33518)."""
    if not s.verify_steps:
        return
    if s.proposed_drafts != s.verify_steps * (speculation.draft_tokens - 1):
        yield (
            f"{s.prompt_id}: {s.proposed_drafts} proposed drafts, but {s.verify_steps} verify "
            f"steps x {speculation.draft_tokens - 1} = "
            f"{s.verify_steps * (speculation.draft_tokens - 1)}"
        )
    if not 0 <= s.correct_drafts <= s.verify_steps * (speculation.max_accept_length - 1):
        yield (
            f"{s.prompt_id}: {s.correct_drafts} correct drafts in {s.verify_steps} verify steps of "
            f"at most {speculation.max_accept_length - 1}"
        )
    if s.histogram is None:
        return
    if min(s.histogram, default=0) < 0 or any(s.histogram[speculation.max_accept_length :]):
        yield (
            f"{s.prompt_id}: the histogram is {list(s.histogram)}, but a verify step has 0 to "
            f"{speculation.max_accept_length - 1} correct drafts"
        )
    if sum(s.histogram) != s.verify_steps:
        total = sum(s.histogram)
        yield f"{s.prompt_id}: the histogram sums to {total}, not to {s.verify_steps} verify steps"
    weighted = sum(i * count for i, count in enumerate(s.histogram))
    if weighted != s.correct_drafts:
        yield (
            f"{s.prompt_id}: the histogram holds {weighted} correct drafts, the count says "
            f"{s.correct_drafts}"
        )


def own_figures(s: RequestSample, meta: Mapping[str, Any], names: MetaNames) -> Iterator[str]:
    """Name the server's own ratios that do not follow from its counts."""
    if not s.verify_steps:
        return
    length = meta.get(names.accept_length) if names.accept_length else None
    if _differs(length, s.completion_tokens / s.verify_steps):
        yield (
            f"{s.prompt_id}: {names.accept_length} is {length}, but {s.completion_tokens} tokens / "
            f"{s.verify_steps} verify steps = {s.completion_tokens / s.verify_steps:.4f}"
        )
    by_drafts = names.accept_rate and names.rate_denominator == "draft-tokens - 1"
    rate = meta.get(names.accept_rate) if by_drafts and names.accept_rate else None
    if names.correct and s.proposed_drafts and _differs(rate, s.correct_drafts / s.proposed_drafts):
        yield (
            f"{s.prompt_id}: {names.accept_rate} is {rate}, but {s.correct_drafts} correct drafts "
            f"/ {s.proposed_drafts} proposed = {s.correct_drafts / s.proposed_drafts:.4f}"
        )


def _rate_tells(names: MetaNames) -> bool:
    return names.accept_rate is not None and names.rate_denominator == "steps"


def _recovered(meta: Mapping[str, Any], names: MetaNames, denominator: int) -> int | None:
    """Return the count that a rate was made from, where its denominator is known."""
    rate = meta.get(names.accept_rate or "")
    if not _rate_tells(names) or isinstance(rate, bool) or not isinstance(rate, (int, float)):
        return None
    return round(rate * denominator)


def _differs(reported: object, computed: float) -> bool:
    known = isinstance(reported, (int, float)) and not isinstance(reported, bool)
    return known and not math.isclose(float(str(reported)), computed, rel_tol=TOLERANCE)


def _count(meta: Mapping[str, Any], name: str | None) -> int | None:
    value = meta.get(name) if name else None
    return value if type(value) is int else None
