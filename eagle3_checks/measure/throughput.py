"""Output speed at given concurrencies."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from eagle3_checks.contract.metrics import MetaNames
from eagle3_checks.facts import Interval, Quantiles, Stream, Throughput
from eagle3_checks.measure.acceptance import shuffled
from eagle3_checks.measure.client import Answer, Client, send_all
from eagle3_checks.measure.progress import SILENT, Progress
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.measure.speedup import by_prompt, scaled
from eagle3_checks.measure.statistics import ratio_interval
from eagle3_checks.profile import Prompts, Speed

WARM_UP = "one request a stream before each concurrency, from the end of the prompts, not counted"


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is sent to measure speed: the same to every server."""

    prompts: Sequence[Prompt]
    wanted: Speed
    form: Prompts
    fresh: bool = False
    """Whether the server forgets its cached prefixes before each concurrency, as it may where it is
    ours: prompts that an earlier measurement has left there would cost no prefill."""


def measure_throughput(
    client: Client, load: Load, names: MetaNames, *, progress: Progress = SILENT
) -> Throughput:
    """Measure each concurrency in turn.

    Requests are greedy, in a fixed order, of fixed output length (``ignore_eos``), and streamed.
    """
    streams = []
    progress.begin("speed", len(load.wanted.concurrencies))
    try:
        for done, concurrency in enumerate(load.wanted.concurrencies, start=1):
            streams.append(_stream(client, load, concurrency, names))
            progress.update(done, streams[-1].interval)
    finally:
        progress.end()
    return Throughput(streams=tuple(streams), warm_up=WARM_UP)


def _stream(client: Client, load: Load, concurrency: int, names: MetaNames) -> Stream:
    def send(prompt: Prompt) -> Answer:
        return client.generate(
            prompt,
            max_new_tokens=load.wanted.max_new_tokens,
            ignore_eos=True,
            chat=load.form.chat_template,
            stream=True,
        )

    if load.fresh:
        client.flush_cache()
    order = shuffled(load.prompts)
    last = itertools.cycle(reversed(order))
    send_all(send, itertools.islice(last, concurrency), concurrency=concurrency)
    count = max(load.wanted.requests, 2 * concurrency)
    chosen = list(itertools.islice(itertools.cycle(order), count))
    cpu, begin = time.process_time(), time.perf_counter()
    answers, failures = send_all(send, chosen, concurrency=concurrency)
    seconds = time.perf_counter() - begin
    share = (time.process_time() - cpu) / seconds
    tokens = sum(_count(a, "completion_tokens") for a in answers)
    latencies = tuple((a.prompt.id, _count(a, "completion_tokens"), a.seconds) for a in answers)
    return Stream(
        concurrency=concurrency,
        requests=count,
        failed=len(failures),
        output_tokens=tokens,
        seconds=seconds,
        tokens_per_second=tokens / seconds,
        interval=_interval(latencies, tokens / seconds),
        first_token=_quantiles([(a.first, 1) for a in answers if a.first is not None]),
        between_tokens=_quantiles([(gap / n, n) for a in answers for gap, n in a.gaps]),
        client_share=share,
        accept_length=_accept_length(answers, names),
        latencies=latencies,
        prompt_tokens=sum(_count(a, "prompt_tokens") for a in answers),
        cached_tokens=sum(_count(a, "cached_tokens") for a in answers),
    )


def _interval(latencies: Sequence[tuple[str, int, float]], speed: float) -> Interval | None:
    """Return the interval of a speed: tokens a second of each stream, by prompt, times streams."""
    sums = by_prompt(latencies)
    ratio = ratio_interval([t for t, _ in sums.values()], [s for _, s in sums.values()])
    return scaled(ratio, speed) if ratio else None


def _quantiles(weighted: Sequence[tuple[float, int]]) -> Quantiles | None:
    """Median and 99th percentile (nearest rank) of values that count several times."""
    total = sum(weight for _, weight in weighted)
    if not total:
        return None
    found = []
    ordered = sorted(weighted)
    for share in (0.5, 0.99):
        rank, passed = math.ceil(share * total), 0
        for value, weight in ordered:
            passed += weight
            if passed >= rank:
                found.append(value)
                break
    return Quantiles(p50=found[0], p99=found[1], n=total)


def _accept_length(answers: Sequence[Answer], names: MetaNames) -> float | None:
    """Tokens per verify step after the first, or None where the answers do not tell."""
    counts = [(a.meta.get(names.verify), a.meta.get(names.correct or "")) for a in answers]
    known = [(s, c) for s, c in counts if type(s) is int and type(c) is int and s]
    steps = sum(s for s, _ in known)
    return 1 + sum(c for _, c in known) / steps if steps else None


def _count(answer: Answer, name: str) -> int:
    found = answer.meta.get(name)
    return found if isinstance(found, int) else 0
