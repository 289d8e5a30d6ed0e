from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eagle3_checks.contract.version import contract_for
from eagle3_checks.facts import Interval, SpeedUp, Stream, Throughput
from eagle3_checks.measure.acceptance import shuffled
from eagle3_checks.measure.client import Client
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.measure.throughput import (
    Load,
    _quantiles,
    against_base,
    break_even,
    measure_throughput,
)
from eagle3_checks.profile import Prompts, Speed
from tests_cpu.measure.stub import Handler, generate, serve

NAMES = contract_for("0.5.23").meta
PROMPTS = tuple(Prompt(id=f"p{n}", set="s", text=f"prompt {n}") for n in range(10))
LOAD = Load(prompts=PROMPTS, wanted=Speed(concurrencies=(1, 4), requests=6), form=Prompts())


def stream(concurrency: int, seconds: float, *, failed: int = 0, prompts: int = 8) -> Stream:
    latencies = tuple((f"p{n}", 100, seconds * (1 + n / 50)) for n in range(prompts))
    return Stream(
        concurrency=concurrency,
        requests=prompts,
        failed=failed,
        output_tokens=100 * prompts,
        seconds=seconds * prompts / concurrency,
        tokens_per_second=100 * concurrency / seconds,
        latencies=latencies,
    )


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


def test_the_speed_up_is_paired_by_prompt() -> None:
    fast = Throughput(streams=(stream(1, 1.0), stream(8, 3.0), stream(64, 9.0)))
    base = Throughput(streams=(stream(1, 2.0), stream(8, 3.3), stream(64, 7.0)))
    got = against_base(fast, base)
    ratios = {up.concurrency: up.ratio for up in got.speed_ups}
    assert ratios[1].value == pytest.approx(2.0)
    assert ratios[64].value == pytest.approx(7 / 9)
    # Prompts differ by 14 %, in both runs alike: nothing of that is left in the ratio.
    assert ratios[1].high - ratios[1].low < 1e-9
    assert got.base == base.streams
    assert got.break_even is not None
    assert 8 < got.break_even < 64


def test_streams_without_common_prompts_are_not_compared() -> None:
    other = replace(stream(1, 2.0), latencies=(("q", 100, 2.0),))
    got = against_base(Throughput(streams=(stream(1, 1.0),)), Throughput(streams=(other,)))
    assert got.speed_ups == ()
    assert against_base(got, Throughput(streams=())).speed_ups == ()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({1: 2.0, 16: 0.5}, 1 * 16 ** (1 / 1.5)),
        ({1: 2.0, 8: 1.0, 16: 0.5}, 8.0),
        ({1: 2.0, 8: 1.5}, None),
        ({1: 0.9, 8: 0.5}, None),
        ({}, None),
    ],
)
def test_break_even(values: dict[int, float], expected: float | None) -> None:
    ups = [
        SpeedUp(
            concurrency=c,
            ratio=Interval(value=v, low=v, high=v, level=0.95, n=9),
            base_tokens_per_second=1.0,
        )
        for c, v in values.items()
    ]
    assert break_even(ups) == (None if expected is None else pytest.approx(expected))


def test_quantiles_count_a_chunk_by_its_tokens() -> None:
    got = _quantiles([(1.0, 98), (5.0, 2)])
    assert got is not None
    assert (got.p50, got.p99, got.n) == (1.0, 5.0, 100)
    assert _quantiles([]) is None
