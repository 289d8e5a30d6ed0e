"""What the client says of speed is what the server counted, on the real server."""

from __future__ import annotations

import dataclasses
import re
import urllib.request
from pathlib import Path

import pytest

from eagle3_checks.contract.version import contract_for
from eagle3_checks.measure.client import Client
from eagle3_checks.measure.prompts import Prompt, load_prompts
from eagle3_checks.measure.throughput import Load, measure_throughput
from eagle3_checks.profile import Prompts, Speed
from eagle3_checks.server.open import open_server
from eagle3_checks.settings import resolve

TINY = resolve("tiny", environ={}).profile
NAMES = contract_for("0.5.23").meta
CONCURRENCY = 4
SPEED = Speed(concurrencies=(CONCURRENCY,), requests=16, max_new_tokens=64)
CHAT = Prompt(id="c", set="s", messages=({"role": "user", "content": "def f(x):"},))
PROMPTS = load_prompts(Prompts(sets=("heldout-code",), limit=24)).prompts


def counters(url: str) -> dict[str, float]:
    """Read the server's own totals."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found: dict[str, float] = {}
    for name, value in re.findall(r"(?m)^(sglang:\w+?)(?:\{[^}]*\})? (\S+)$", text):
        found[name] = found.get(name, 0.0) + float(value)
    return found


def test_tokens_and_times_are_those_of_the_server(tmp_path: Path) -> None:
    server = dataclasses.replace(TINY.server, args=(*TINY.server.args, "--enable-metrics"))
    profile = dataclasses.replace(TINY, server=server)
    load = Load(prompts=PROMPTS, wanted=SPEED, form=profile.prompts)
    with open_server(profile, tmp_path) as running:
        client = Client(running.url)
        before = counters(running.url)
        (seen,) = measure_throughput(client, load, NAMES).streams
        after = counters(running.url)
        whole, streamed = (
            client.generate(CHAT, max_new_tokens=16, ignore_eos=True, stream=stream)
            for stream in (False, True)
        )
        client.close()
    assert whole.meta[NAMES.verify] > 0
    assert streamed.meta["completion_tokens"] == 16
    assert sum(tokens for _, tokens in streamed.gaps) == 15
    moved = {name: after[name] - before.get(name, 0.0) for name in after}
    warm_up = CONCURRENCY * SPEED.max_new_tokens
    served = (moved["sglang:generation_tokens_total"] - warm_up) / seen.seconds
    assert seen.tokens_per_second == pytest.approx(served, rel=0.02)
    assert seen.failed == 0
    assert seen.first_token is not None
    assert seen.between_tokens is not None
    assert seen.first_token.n == SPEED.requests
    # The first token of each answer has no gap before it, nor have those that came along with it:
    # where client and server share two cores, the first verify step may catch up with prefill.
    longest_step = TINY.speculation.max_accept_length
    gaps = seen.output_tokens - SPEED.requests
    assert gaps - SPEED.requests * longest_step <= seen.between_tokens.n <= gaps
    assert seen.accept_length is not None
    assert seen.accept_length > 1.5
