"""Losslessness, measured on a toy server with and without faults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.facts import Comparison, Parity, RequestKind, ZeroRun
from eagle3_checks.measure.asking import Output, Question, Score
from eagle3_checks.measure.client import Client, RequestFailed, RequestRefused
from eagle3_checks.measure.parity import (
    END,
    ParityRun,
    against_each_other,
    against_scores,
    first_line,
    zero_runs,
)
from eagle3_checks.measure.prompts import Prompt
from tests_cpu.measure.stub import serve
from tests_cpu.measure.toy import WRONG_AT, Toy

PROMPTS = (
    Prompt(id="p1", set="s", text="def f("),
    Prompt(id="p2", set="s", messages=({"role": "user", "content": "hello"},)),
)


@contextmanager
def client_of(toy: Toy) -> Iterator[Client]:
    with serve(toy.reply) as (url, _):
        client = Client(url, timeout=5)
        try:
            yield client
        finally:
            client.close()


def measure(fault: str = "", margin: float = 2.0) -> Parity:
    with client_of(Toy(fault, margin)) as client:
        return ParityRun.of(client, PROMPTS, new_tokens=24, first_line="new").parity("float32")


def kind_of(fault: str, name: str) -> RequestKind:
    return next(kind for kind in measure(fault).kinds if kind.kind == name)


def test_a_healthy_server() -> None:
    seen = measure()
    for comparison in (seen.scored, seen.again, seen.together, seen.cached):
        assert comparison == Comparison(prompts=2, tokens=48)
    assert seen.cached_tokens > 10
    assert (seen.zero_runs, seen.failures) == ((), ())
    assert [(k.problem, k.refused, k.open, k.survived) for k in seen.kinds] == [
        ("", "", "", True)
    ] * 6


@pytest.mark.parametrize("margin", [2.0, 1e-4])
def test_a_token_that_is_not_the_targets_choice(margin: float) -> None:
    seen = measure("wrong", margin)
    # A wrong token of the toy's changes all that follow, and those are its own choice again.
    assert [(d.prompt_id, d.index) for d in seen.scored.divergences] == [
        ("p1", WRONG_AT),
        ("p2", WRONG_AT),
    ]
    first = seen.scored.divergences[0]
    assert first.margin == pytest.approx(margin)
    assert first.token == first.other % 88 + 1
    assert seen.again.divergences == seen.cached.divergences == ()


@pytest.mark.parametrize(
    ("fault", "fields"),
    [("moody", {"again"}), ("company", {"together"}), ("cache", {"cached", "scored"})],
)
def test_answers_that_change(fault: str, fields: set[str]) -> None:
    seen = measure(fault)
    changed = {
        name
        for name in ("scored", "again", "together", "cached")
        if any(d.index == WRONG_AT for d in getattr(seen, name).divergences)
    }
    assert fields & changed == fields - {"scored"}
    if fault == "company":
        assert changed == {"together"}
        assert all(d.margin == pytest.approx(2.0) for d in seen.together.divergences)
    if fault == "cache":
        assert changed == {"cached"}


def test_a_server_without_a_cache_compares_nothing() -> None:
    seen = measure("no-cache")
    assert seen.cached_tokens == 0
    assert "no prompt token came from the prefix cache" in seen.cached.missing


def test_token_0_over_and_over() -> None:
    runs = measure("zeroes").zero_runs
    assert set(runs) == {ZeroRun(prompt_id=name, index=4, length=10) for name in ("p1", "p2")}


def test_scores_that_do_not_come_are_failures() -> None:
    seen = measure("scores-lost")
    assert seen.scored.missing == "no answer was scored"
    assert all("prefill brought no log probabilities" in f for f in seen.failures)
    assert len(seen.failures) == 2


def test_requests_that_fail_are_noted() -> None:
    seen = measure("fails")
    assert seen.scored.missing
    assert seen.again.missing == "no prompt was answered in both runs"
    assert len(seen.failures) == 8
    assert {kind.open for kind in seen.kinds} == {"no long answer to build it on"}


def test_a_server_without_tokenizer() -> None:
    with pytest.raises(RequestRefused, match="/tokenize answered 404"):
        measure("no-tokenizer")


@pytest.mark.parametrize(
    ("fault", "kind", "problem"),
    [
        ("logprob-short", "logprobs", "1 log probabilities for 24 tokens"),
        ("logprob-nan", "logprobs", "log probability 2 is None"),
        ("logprob-other", "logprobs", "log probability 2 is of token"),
        ("json-cut", "json", "the answer is not JSON: '\"every tok'"),
        ("json-other", "json", "which the schema does not allow"),
        ("json-endless", "json", "it ended by 'length', not by its grammar"),
        ("stop-missed", "stop", "the answer goes on behind the stop string"),
        ("stop-kept", "stop", "the answer goes on behind the stop string"),
        ("abort-ignored", "abort", "it went on to its 256 tokens"),
        ("abort-unsaid", "abort", "it ended by 'stop' after 3 tokens, not by its abort"),
        ("short-long", "short", "2 tokens instead of 1"),
        ("hidden-short", "hidden", "7 entries of hidden states for 8 tokens"),
    ],
)
def test_a_kind_of_request_that_goes_wrong(fault: str, kind: str, problem: str) -> None:
    seen = kind_of(fault, kind)
    assert problem in seen.problem
    assert seen.survived


def test_a_kind_that_is_refused() -> None:
    seen = kind_of("hidden-refused", "hidden")
    assert (seen.problem, seen.refused) == ("", "not configured to return hidden states")
    assert kind_of("no-abort", "abort").refused == "no such place"


def test_a_kind_that_ends_the_server() -> None:
    kinds = {kind.kind: kind for kind in measure("json-dies").kinds}
    assert kinds["logprobs"].survived
    assert not kinds["json"].survived
    assert kinds["json"].problem
    assert kinds["hidden"].open == "not sent: the server was gone after json"


def test_first_lines() -> None:
    assert first_line(launched=True) == first_line(launched=True)
    assert first_line(launched=False) != first_line(launched=False)


def test_an_answer_that_is_no_object() -> None:
    with serve(lambda handler, _: handler.whole([1])) as (url, _):
        client = Client(url, timeout=5)
        with pytest.raises(RequestFailed, match="/generate answered list, no object"):
            client.ask("/generate", {})
        client.close()


@pytest.mark.parametrize("fault", ["", "wrong", "fails"])
def test_another_server_answers_too(fault: str) -> None:
    with client_of(Toy()) as client, client_of(Toy(fault)) as plain:
        run = ParityRun.of(client, PROMPTS, new_tokens=24, first_line="new")
        seen = run.against(plain)
    if fault == "fails":
        assert "/generate answered 500" in seen.missing
        return
    assert (seen.prompts, seen.tokens) == (2, 48)
    assert [d.index for d in seen.divergences] == ([WRONG_AT] * 2 if fault else [])


TOKENS = st.lists(st.integers(0, 3), max_size=12).map(tuple)


def output(tokens: tuple[int, ...], name: str = "p") -> Output:
    return Output(question=Question(id=name, tokens=(1,)), tokens=tokens, text="", cached=0)


@given(TOKENS, TOKENS)
def test_the_first_difference(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    seen = against_each_other({"p": output(one)}, {"p": output(other)}, {})
    if one == other:
        assert seen.divergences == ()
        return
    (found,) = seen.divergences
    assert one[: found.index] == other[: found.index]
    assert found.token == (*one, END)[found.index]
    assert found.other == (*other, END)[found.index]
    assert found.token != found.other
    assert (found.margin, found.floor) == (None, 0.0)


@given(TOKENS)
def test_zero_runs_are_where_they_are_said_to_be(tokens: tuple[int, ...]) -> None:
    runs = list(zero_runs({"p": output(tokens)}))
    for run in runs:
        assert run.length >= 4
        assert set(tokens[run.index : run.index + run.length]) == {0}
    inside = {i for run in runs for i in range(run.index, run.index + run.length)}
    outside = "".join("0" if t == 0 and i not in inside else "x" for i, t in enumerate(tokens))
    assert "0000" not in outside


SCORES = (
    Score(token=5, logprob=-0.2, best=((5, -0.2), (6, -1.0), (7, -3.0))),
    Score(token=5, logprob=-0.2, best=((5, -0.2), (6, -1.0), (7, -3.0))),
)


def test_margins_by_the_scores() -> None:
    one = {"p": output((5, 5))}
    for instead, margin, floor in ((6, 0.8, 0.0), (7, 2.8, 0.0), (9, None, 2.8)):
        seen = against_each_other(one, {"p": output((5, instead))}, {"p": SCORES})
        (found,) = seen.divergences
        assert found.margin == (None if margin is None else pytest.approx(margin))
        assert found.floor == pytest.approx(floor)


def test_scores_of_another_text_tell_nothing() -> None:
    one, other = {"p": output((4, 5))}, {"p": output((4, 6))}
    (found,) = against_each_other(one, other, {"p": SCORES}).divergences
    assert (found.margin, found.floor) == (None, 0.0)


def test_nothing_scored_is_said() -> None:
    assert against_scores({"p": output((1,))}, {}).missing == "no answer was scored"
    assert against_scores({"p": output(())}, {"p": ()}).missing == "no answer was scored"
