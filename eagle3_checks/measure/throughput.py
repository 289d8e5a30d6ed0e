"""Output tokens per second at given concurrencies."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

from eagle3_checks.facts import Stream, Throughput
from eagle3_checks.measure.client import Answer, Client, send_all
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.profile import Prompts, Speed


def measure_throughput(
    client: Client, prompts: Sequence[Prompt], wanted: Speed, form: Prompts
) -> Throughput:
    """Measure each concurrency in turn; output lengths are fixed (``ignore_eos``).

    Before each, one request a stream warms up and is not counted.
    """
    return Throughput(
        streams=tuple(_stream(client, prompts, wanted, form, c) for c in wanted.concurrencies)
    )


def _stream(
    client: Client, prompts: Sequence[Prompt], wanted: Speed, form: Prompts, concurrency: int
) -> Stream:
    def send(prompt: Prompt) -> Answer:
        return client.generate(
            prompt,
            max_new_tokens=wanted.max_new_tokens,
            ignore_eos=True,
            chat=form.chat_template,
        )

    supply = itertools.cycle(prompts)
    send_all(send, itertools.islice(supply, concurrency), concurrency=concurrency)
    count = max(wanted.requests, 2 * concurrency)
    chosen = list(itertools.islice(supply, count))
    begin = time.perf_counter()
    answers, failures = send_all(send, chosen, concurrency=concurrency)
    seconds = time.perf_counter() - begin
    tokens = sum(_tokens(answer) for answer in answers)
    return Stream(
        concurrency=concurrency,
        requests=count,
        failed=len(failures),
        output_tokens=tokens,
        seconds=seconds,
        tokens_per_second=tokens / seconds,
    )


def _tokens(answer: Answer) -> int:
    tokens = answer.meta.get("completion_tokens")
    return tokens if isinstance(tokens, int) else 0
