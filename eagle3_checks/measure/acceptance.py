"""Acceptance from the counts that each request reports."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from eagle3_checks.contract.metrics import MetaNames
from eagle3_checks.facts import Acceptance, Depth, Group, Interval, RequestSample
from eagle3_checks.measure.client import Answer, Client, RequestFailed, send_all
from eagle3_checks.measure.counts import contradictions, lacking, own_figures, sample, unreported
from eagle3_checks.measure.judging import Inquiry
from eagle3_checks.measure.progress import SILENT, Progress
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.measure.statistics import (
    ACCEPTED_SKEW,
    mean_interval,
    ratio_interval,
    shift,
)
from eagle3_checks.profile import Prompts, Speculation

LENGTHS = (128, 512, 2048, 8192)
"""Upper ends of the ranges of prompt tokens that are told apart."""
ENOUGH_WITHOUT_STEPS = 8
"""Answers without a verify step after which no more are asked for."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A measurement of acceptance with what it was made from."""

    acceptance: Acceptance
    samples: tuple[RequestSample, ...]
    failures: tuple[RequestFailed, ...]


@dataclass(frozen=True, kw_only=True)
class Server:
    """What is known of the server that answers."""

    names: MetaNames
    version: str
    speculation: Speculation


def measure_acceptance(  # noqa: PLR0913 - what is sent, to whom, and who asks and watches
    client: Client,
    prompts: Sequence[Prompt],
    wanted: Prompts,
    server: Server,
    *,
    inquiry: Inquiry | None = None,
    progress: Progress = SILENT,
) -> Measured:
    """Send prompts once each, greedily, in batches, until the inquiry is certain or all are sent.

    The order is a fixed shuffle, so that a part of the prompts stands for all of them. Failures are
    kept, and nothing is sent again.
    """

    def send(prompt: Prompt) -> Answer:
        return client.generate(
            prompt, max_new_tokens=wanted.max_new_tokens, chat=wanted.chat_template
        )

    inquiry = inquiry or Inquiry(questions={}, planned=len(prompts), sequential=False)
    order = shuffled(prompts)
    samples: list[RequestSample] = []
    failures: list[RequestFailed] = []
    odd: list[str] = []
    lacks: set[str] = set()
    stopped = ""
    begin = 0
    progress.begin("accept length", len(order))
    try:
        for number, end in enumerate(inquiry.looks):
            answers, failed = send_all(send, order[begin:end], concurrency=wanted.concurrency)
            failures += failed
            for answer in answers:
                seen = sample(answer, server.names, server.speculation)
                samples.append(seen)
                odd += contradictions(seen, server.speculation)
                odd += own_figures(seen, answer.meta, server.names)
                lacks.update(lacking(seen, answer.meta, server.names))
            steps, length = _length(samples)
            progress.update(len(samples), length, verify_steps=steps)
            certain = inquiry.look(number, samples)
            if end < len(order):
                stopped = _reason(samples, certain=certain, answered=len(answers))
            if stopped:
                break
            begin = end
    finally:
        progress.end()
    if any(s.verify_steps for s in samples):
        odd += _unspeculated(samples)
    acceptance = summarise(samples, server.speculation, failed=len(failures), found=odd)
    acceptance = dataclasses.replace(
        acceptance,
        missing=acceptance.missing or _uncounted(lacks, server),
        unreported=(*unreported(server.names, server.version), *_unplaced(lacks, server)),
        planned=len(order),
        stopped=stopped,
    )
    return Measured(
        acceptance=_valid_at_any_look(acceptance, inquiry),
        samples=tuple(samples),
        failures=tuple(failures),
    )


def shuffled(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Return the prompts in an order that depends on nothing but themselves."""

    def place(prompt: Prompt) -> bytes:
        return hashlib.sha256(f"{prompt.set}\0{prompt.id}\0{prompt.text}".encode()).digest()

    return sorted(prompts, key=place)


def _reason(samples: Sequence[RequestSample], *, certain: bool, answered: int) -> str:
    """Say why no more prompts are sent, or nothing."""
    if certain:
        return "the verdict was certain"
    if not answered:
        return "every request of a batch failed"
    if len(samples) >= ENOUGH_WITHOUT_STEPS and not any(s.verify_steps for s in samples):
        return "no request took a verify step"
    return ""


def _uncounted(lacks: Collection[str], server: Server) -> str | None:
    """Say which counts did not come, though this version gives them: what stands in is no count."""
    absent = [n for n in (server.names.correct, server.names.proposed) if n and n in lacks]
    if not absent:
        return None
    return (
        f"answers with verify steps lack {' and '.join(absent)}, which SGLang {server.version} "
        "reports"
    )


def _unplaced(lacks: Collection[str], server: Server) -> Iterator[str]:
    """Say why there are no positions, though this version tells them."""
    if server.names.histogram in lacks:
        yield (
            f"answers lack {server.names.histogram}, which SGLang {server.version} reports: no "
            "acceptance by position"
        )


def _valid_at_any_look(acceptance: Acceptance, inquiry: Inquiry) -> Acceptance:
    """Take the repeated intervals where a run ended early: plain ones hold for fixed sizes only."""
    if not acceptance.stopped:
        return acceptance
    length, rate = inquiry.latest.get("accept_length"), inquiry.latest.get("accept_rate")
    return dataclasses.replace(
        acceptance,
        accept_length=length.interval if length else acceptance.accept_length,
        accept_rate=rate.interval if rate else acceptance.accept_rate,
    )


def summarise(
    samples: Sequence[RequestSample],
    speculation: Speculation,
    *,
    failed: int = 0,
    found: Sequence[str] | None = None,
) -> Acceptance:
    """Pool the counts of all requests; intervals take the prompt as their unit.

    `found` are contradictions already seen; they are looked for here where it is None.
    """
    if found is None:
        found = [c for s in samples for c in contradictions(s, speculation)]
    steps, length = _length(samples)
    correct = [s.correct_drafts for s in samples]
    proposed = [s.proposed_drafts for s in samples]
    ratios = [1 + s.correct_drafts / s.verify_steps for s in samples if s.verify_steps]
    depths = reached(samples, speculation)
    return Acceptance(
        prompts=len(samples),
        verify_steps=steps,
        correct_drafts=sum(correct),
        proposed_drafts=sum(proposed),
        accept_length=length,
        accept_rate=ratio_interval(correct, proposed, skew=ACCEPTED_SKEW),
        per_position=tuple(d.joint.value for d in depths) if speculation.chain and depths else None,
        failed_requests=failed,
        missing=_missing(samples, failed),
        contradictions=tuple(found),
        accept_length_mean=mean_interval(ratios, skew=ACCEPTED_SKEW),
        depths=depths,
        by_set=grouped(samples, lambda s: s.prompt_set),
        by_prompt_tokens=grouped(samples, _range),
        planned=len(samples) + failed,
    )


def reached(samples: Iterable[RequestSample], speculation: Speculation) -> tuple[Depth, ...]:
    """How often 1, 2, … drafts of a verify step were correct, from the histograms.

    In a chain the i-th draft counts only if all before it did, so that this is acceptance by
    position. In a tree it is how deep the accepted path went; which branch it took is not told.
    """
    used = [s for s in samples if s.verify_steps]
    histograms = [s.histogram for s in used if s.histogram is not None]
    if not used or len(histograms) < len(used):
        return ()
    steps = [sum(h) for h in histograms]
    depths: list[Depth] = []
    before = float(sum(steps))
    for drafts in range(1, speculation.max_accept_length):
        counts = [sum(h[drafts:]) for h in histograms]
        joint = ratio_interval(counts, steps, skew=ACCEPTED_SKEW)
        if joint is None:
            return ()
        total = float(sum(counts))
        conditional = total / before if before else None
        depths.append(Depth(drafts=drafts, joint=joint, conditional=conditional))
        before = total
    return tuple(depths)


def grouped(
    samples: Iterable[RequestSample], name: Callable[[RequestSample], str]
) -> tuple[Group, ...]:
    """Return the acceptance of each group of prompts, by size of the prompts."""
    groups: dict[str, list[RequestSample]] = {}
    for seen in sorted(samples, key=lambda s: s.prompt_tokens):
        groups.setdefault(name(seen), []).append(seen)
    return tuple(_group(title, members) for title, members in groups.items())


def _group(name: str, members: Sequence[RequestSample]) -> Group:
    steps, length = _length(members)
    return Group(name=name, prompts=len(members), verify_steps=steps, accept_length=length)


def _range(seen: RequestSample) -> str:
    low = 0
    for high in LENGTHS:
        if seen.prompt_tokens <= high:
            return f"{low + 1} to {high}" if low else f"up to {high}"
        low = high
    return f"over {low}"


def _length(samples: Sequence[RequestSample]) -> tuple[int, Interval | None]:
    steps = [s.verify_steps for s in samples]
    correct = [s.correct_drafts for s in samples]
    ratio = ratio_interval(correct, steps, skew=ACCEPTED_SKEW)
    return sum(steps), shift(ratio, 1.0) if ratio else None


def _missing(samples: Sequence[RequestSample], failed: int) -> str | None:
    if not samples:
        return f"no request was answered ({failed} failed)"
    if any(s.verify_steps for s in samples):
        return None
    count = f"{len(samples)} requests were answered without a single verify step: "
    if all(s.completion_tokens <= 1 for s in samples):
        return f"{count}no answer has a second token, and the first takes none"
    if any(s.reported for s in samples):
        return f"{count}the server counts zero, so it does not speculate"
    return (
        f"{count}the server reports none of its acceptance, so it does not speculate, or its "
        "version does not tell"
    )


def _unspeculated(samples: Iterable[RequestSample]) -> Iterator[str]:
    """Name the answers that took no verify step while others did; each needs one for its tokens."""
    for s in samples:
        if not s.verify_steps and s.completion_tokens > 1:
            yield (
                f"{s.prompt_id}: {s.completion_tokens} tokens without a verify step, while other "
                "requests took some"
            )
