"""Output speed at given concurrencies, with and without speculation."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from eagle3_checks.contract.metrics import MetaNames
from eagle3_checks.facts import Interval, Quantiles, SpeedUp, Stream, Throughput
from eagle3_checks.measure.acceptance import shuffled
from eagle3_checks.measure.client import Answer, Client, send_all
from eagle3_checks.measure.progress import SILENT, Progress
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.measure.statistics import LEVEL, ratio_interval
from eagle3_checks.profile import Prompts, Speed

WARM_UP = "one request a stream before each concurrency, from the end of the prompts, not counted"


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is sent to measure speed: the same to every server."""

    prompts: Sequence[Prompt]
    wanted: Speed
    form: Prompts


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


def against_base(fast: Throughput, base: Throughput) -> Throughput:
    """Return the first with its speed-up over the second, prompt by prompt."""
    slow = {stream.concurrency: stream for stream in base.streams}
    pairs = [(s, slow[s.concurrency]) for s in fast.streams if s.concurrency in slow]
    ups = tuple(up for s, b in pairs if (up := _speed_up(s, b)) is not None)
    return replace(fast, base=base.streams, speed_ups=ups, break_even=break_even(ups))


def break_even(ups: Sequence[SpeedUp]) -> float | None:
    """Return the concurrency at which the speed-up falls to 1, between two measured ones.

    Interpolated over the logarithm of the concurrency. None where it stays on one side.
    """
    ordered = sorted(ups, key=lambda up: up.concurrency)
    for low, high in itertools.pairwise(ordered):
        gain, loss = low.ratio.value - 1, 1 - high.ratio.value
        if gain >= 0 and loss > 0:
            share = gain / (gain + loss)
            return float(low.concurrency * (high.concurrency / low.concurrency) ** share)
    return None


def _stream(client: Client, load: Load, concurrency: int, names: MetaNames) -> Stream:
    def send(prompt: Prompt) -> Answer:
        return client.generate(
            prompt,
            max_new_tokens=load.wanted.max_new_tokens,
            ignore_eos=True,
            chat=load.form.chat_template,
            stream=True,
        )

    order = shuffled(load.prompts)
    last = itertools.cycle(reversed(order))
    send_all(send, itertools.islice(last, concurrency), concurrency=concurrency)
    count = max(load.wanted.requests, 2 * concurrency)
    chosen = list(itertools.islice(itertools.cycle(order), count))
    cpu, begin = time.process_time(), time.perf_counter()
    answers, failures = send_all(send, chosen, concurrency=concurrency)
    seconds = time.perf_counter() - begin
    share = (time.process_time() - cpu) / seconds
    tokens = sum(_tokens(answer) for answer in answers)
    latencies = tuple((a.prompt.id, _tokens(a), a.seconds) for a in answers)
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
    )


def _interval(latencies: Sequence[tuple[str, int, float]], speed: float) -> Interval | None:
    """Return the interval of a speed: tokens a second of each stream, by prompt, times streams."""
    sums = _by_prompt(latencies)
    ratio = ratio_interval([t for t, _ in sums.values()], [s for _, s in sums.values()])
    return _scaled(ratio, speed) if ratio else None


def _speed_up(fast: Stream, base: Stream) -> SpeedUp | None:
    """Compare two streams by the time that each prompt took; None without common prompts."""
    with_it, without = _by_prompt(fast.latencies), _by_prompt(base.latencies)
    common = [p for p in with_it if p in without and with_it[p][0] and without[p][0]]
    # Seconds for the same number of tokens, should a request have brought fewer.
    times = [with_it[p][1] / with_it[p][0] for p in common]
    base_times = [without[p][1] / without[p][0] for p in common]
    ratio = ratio_interval(base_times, times)
    if ratio is None or not base.tokens_per_second:
        return None
    return SpeedUp(
        concurrency=fast.concurrency,
        ratio=_scaled(ratio, fast.tokens_per_second / base.tokens_per_second),
        base_tokens_per_second=base.tokens_per_second,
    )


def _by_prompt(latencies: Sequence[tuple[str, int, float]]) -> dict[str, tuple[int, float]]:
    sums: dict[str, tuple[int, float]] = {}
    for prompt, tokens, seconds in latencies:
        before = sums.get(prompt, (0, 0.0))
        sums[prompt] = (before[0] + tokens, before[1] + seconds)
    return sums


def _scaled(ratio: Interval, value: float) -> Interval:
    """Return an interval of the same relative width around another value."""
    factor = value / ratio.value if ratio.value else 0.0
    ends = [end * factor if math.isfinite(end) else end for end in (ratio.low, ratio.high)]
    return Interval(value=value, low=ends[0], high=ends[1], level=LEVEL, n=ratio.n)


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


def _tokens(answer: Answer) -> int:
    tokens = answer.meta.get("completion_tokens")
    return tokens if isinstance(tokens, int) else 0
