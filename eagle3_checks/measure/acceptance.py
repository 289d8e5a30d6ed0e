"""Acceptance from the counts that each request reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eagle3_checks.contract.metrics import MetaNames
from eagle3_checks.facts import Acceptance, RequestSample
from eagle3_checks.measure.client import Answer, Client, RequestFailed, send_all
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.measure.statistics import ratio_interval, shift
from eagle3_checks.profile import Prompts, Speculation


def measure_acceptance(
    client: Client,
    prompts: Sequence[Prompt],
    wanted: Prompts,
    speculation: Speculation,
    names: MetaNames,
) -> tuple[Acceptance, tuple[RequestSample, ...], tuple[RequestFailed, ...]]:
    """Send every prompt once, greedily, and sum the counts up; failures are kept, not repeated."""

    def send(prompt: Prompt) -> Answer:
        return client.generate(
            prompt, max_new_tokens=wanted.max_new_tokens, chat=wanted.chat_template
        )

    answers, failures = send_all(send, prompts, concurrency=wanted.concurrency)
    samples = tuple(sample(answer, names, speculation) for answer in answers)
    return summarise(samples, speculation, failed=len(failures)), samples, tuple(failures)


def sample(answer: Answer, names: MetaNames, speculation: Speculation) -> RequestSample:
    """Read one answer's counts by the names its SGLang version uses.

    SGLang leaves the keys out where no verify step took place, which counts as zero steps. Where a
    version reports no number of correct drafts, it is the tokens that neither prefill nor a bonus
    brought: ``completion_tokens - 1 - verify steps`` (low by what was cut at the end).
    """
    meta = answer.meta
    steps = _count(meta, names.verify) or 0
    completion = _count(meta, "completion_tokens") or 0
    correct = _count(meta, names.correct)
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
    )


def summarise(
    samples: Sequence[RequestSample], speculation: Speculation, *, failed: int = 0
) -> Acceptance:
    """Pool the counts of all requests; intervals take the prompt as their unit."""
    steps = [s.verify_steps for s in samples]
    correct = [s.correct_drafts for s in samples]
    proposed = [s.proposed_drafts for s in samples]
    length = ratio_interval(correct, steps)
    return Acceptance(
        prompts=len(samples),
        verify_steps=sum(steps),
        correct_drafts=sum(correct),
        proposed_drafts=sum(proposed),
        accept_length=shift(length, 1.0) if length else None,
        accept_rate=ratio_interval(correct, proposed),
        per_position=per_position(samples, speculation),
        failed_requests=failed,
        missing=_missing(samples, failed),
        contradictions=tuple(c for s in samples for c in contradictions(s, speculation)),
    )


def per_position(
    samples: Iterable[RequestSample], speculation: Speculation
) -> tuple[float, ...] | None:
    """Share of verify steps whose draft at position 1, 2, … was correct, from the histograms.

    A histogram of correct drafts is one of positions only for a chain: there the i-th draft counts
    only if all before it did.
    """
    histograms = [s.histogram for s in samples if s.verify_steps]
    if not speculation.chain or not histograms or any(h is None for h in histograms):
        return None
    totals = [0] * (speculation.steps + 1)
    for histogram in histograms:
        for index, count in enumerate(histogram or ()):
            if index < len(totals):
                totals[index] += count
    steps = sum(totals)
    if not steps:
        return None
    return tuple(sum(totals[k:]) / steps for k in range(1, len(totals)))


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
    if sum(s.histogram) != s.verify_steps:
        total = sum(s.histogram)
        yield f"{s.prompt_id}: the histogram sums to {total}, not to {s.verify_steps} verify steps"
    weighted = sum(i * count for i, count in enumerate(s.histogram))
    if weighted != s.correct_drafts:
        yield (
            f"{s.prompt_id}: the histogram holds {weighted} correct drafts, the count says "
            f"{s.correct_drafts}"
        )


def _missing(samples: Sequence[RequestSample], failed: int) -> str | None:
    if not samples:
        return f"no request was answered ({failed} failed)"
    if not any(s.verify_steps for s in samples):
        return (
            f"{len(samples)} requests were answered without a single verify step: "
            "the server did not speculate, or its version does not report it"
        )
    return None


def _count(meta: Mapping[str, Any], name: str | None) -> int | None:
    value = meta.get(name) if name else None
    return value if type(value) is int else None
