from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eagle3_checks.contract.version import contract_for
from eagle3_checks.measure.acceptance import shuffled
from eagle3_checks.measure.client import Client
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.measure.throughput import (
    Load,
    _quantiles,
    measure_throughput,
)
from eagle3_checks.profile import Prompts, Speed
from tests_cpu.measure.stub import Handler, generate, serve

NAMES = contract_for("0.5.23").meta
PROMPTS = tuple(Prompt(id=f"p{n}", set="s", text=f"prompt {n}") for n in range(10))
LOAD = Load(prompts=PROMPTS, wanted=Speed(concurrencies=(1, 4), requests=6), form=Prompts())


def test_what_is_measured_and_what_is_left_out() -> None:
    with serve() as (url, seen):
        client = Client(url)
        got = measure_throughput(client, LOAD, NAMES)
        client.close()
    # One warm-up request a stream: 1 + 6 at concurrency 1, and 4 + 8 (two a stream) at 4.
    assert len(seen) == 1 + 6 + 4 + 8
    assert all(asked["stream"] and asked["sampling_params"]["ignore_eos"] for _, asked in seen)
    order = [p.text for p in shuffled(PROMPTS)]
    assert [asked["text"] for _, asked in seen[:7]] == [order[-1], *order[:6]]
    one, four = got.streams
    assert (one.requests, four.requests, one.failed) == (6, 8, 0)
    assert (one.output_tokens, four.output_tokens) == (54, 72)
    assert one.tokens_per_second == pytest.approx(54 / one.seconds)
    assert one.first_token is not None
    assert one.between_tokens is not None
    assert (one.first_token.n, one.between_tokens.n) == (6, 48)
    assert one.between_tokens.p50 <= one.between_tokens.p99
    assert one.accept_length == pytest.approx(2.0)
    assert one.interval is not None
    assert one.interval.low < one.tokens_per_second < one.interval.high
    assert one.client_share > 0
    assert "not counted" in got.warm_up


def test_failed_requests_are_counted_and_bring_no_tokens() -> None:
    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        if asked["text"] in ("prompt 3", "prompt 4"):
            handler.whole({"error": "no"}, 500)
        else:
            generate(handler, asked)

    load = replace(LOAD, wanted=Speed(concurrencies=(1,), requests=10))
    with serve(reply) as (url, _):
        client = Client(url)
        (only,) = measure_throughput(client, load, NAMES).streams
        client.close()
    assert (only.requests, only.failed, only.output_tokens) == (10, 2, 72)
    assert len(only.latencies) == 8


def test_quantiles_count_a_chunk_by_its_tokens() -> None:
    got = _quantiles([(1.0, 98), (5.0, 2)])
    assert got is not None
    assert (got.p50, got.p99, got.n) == (1.0, 5.0, 100)
    assert _quantiles([]) is None


def test_a_server_of_our_own_forgets_its_prefixes_before_each_concurrency() -> None:
    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        if handler.path.startswith("/flush_cache"):
            handler.whole({})
        else:
            generate(handler, asked)

    with serve(reply) as (url, seen):
        client = Client(url)
        got = measure_throughput(client, replace(LOAD, fresh=True), NAMES)
        client.close()
    flushed = [n for n, (path, _) in enumerate(seen) if path == "/flush_cache?timeout=10"]
    assert flushed == [0, 1 + 1 + 6]
    assert [s.prompt_tokens for s in got.streams] == [6 * 8, 8 * 8]
    assert [s.cached_tokens for s in got.streams] == [6 * 3, 8 * 3]


def test_a_server_that_cannot_forget_is_measured_all_the_same() -> None:
    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        if handler.path.startswith("/flush_cache"):
            handler.whole({}, 404)
        else:
            generate(handler, asked)

    with serve(reply) as (url, _):
        client = Client(url)
        assert not client.flush_cache()
        got = measure_throughput(client, replace(LOAD, fresh=True), NAMES)
        client.close()
    assert [s.failed for s in got.streams] == [0, 0]
