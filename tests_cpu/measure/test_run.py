"""Whole measurements over a server that answers as it is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.contract.version import contract_for
from eagle3_checks.facts import Interval
from eagle3_checks.measure.acceptance import Server
from eagle3_checks.measure.baseline import Key, read
from eagle3_checks.measure.client import Client
from eagle3_checks.measure.prompts import Prompt, PromptSet
from eagle3_checks.measure.run import MeasuredRun
from eagle3_checks.profile import Baseline, Floors, Judging, Profile, Prompts, Speed
from eagle3_checks.verdict import Outcome
from tests_cpu.measure.stub import Handler, generate, serve
from tests_cpu.measure.test_baseline import KEY

COUNT = 40
SHARES = (1.0, 0.0, 0.0)
"""By position, at an accept length of 2: every first draft is correct, and no other."""
PROMPTS = PromptSet(
    prompts=tuple(Prompt(id=f"p{n}", set="s", text=f"prompt {n}") for n in range(COUNT)),
    sha256="0",
)


def counts(text: str, length: float) -> dict[str, Any]:
    """Counts of a prompt: ten more or fewer steps than its neighbour, around one length."""
    number = int(text.rpartition(" ")[2])
    steps = 100 + 10 * (number % 3 - 1)
    correct = round(steps * (length - 1))
    return {
        "prompt_tokens": 8,
        "completion_tokens": 1 + steps + correct,
        "spec_verify_ct": steps,
        "spec_num_correct_drafts": correct,
        "spec_num_proposed_drafts": 3 * steps,
        "spec_correct_drafts_histogram": [steps - correct, correct, 0, 0],
    }


def accepting(length: float) -> Callable[[Handler, dict[str, Any]], None]:
    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        if asked.get("stream"):
            generate(handler, asked)
        else:
            handler.whole({"text": "x", "meta_info": counts(asked["text"], length)})

    return reply


@contextmanager
def run(
    reply: Callable[[Handler, dict[str, Any]], None],
    *,
    floors: Floors | None = None,
    baseline: Path | None = None,
    update: bool = False,
    key: Key = KEY,
    **judging: Any,
) -> Iterator[tuple[MeasuredRun, Sequence[Any]]]:
    profile = Profile(
        floors=floors or Floors(),
        prompts=Prompts(concurrency=4),
        speed=Speed(concurrencies=(1,), requests=2),
        judging=Judging(**judging),
        baseline=Baseline(path=str(baseline or ""), update=update),
    )
    server = Server(
        names=contract_for("0.5.23").meta, version="0.5.23", speculation=profile.speculation
    )
    with serve(reply) as (url, seen):
        client = Client(url, timeout=10)
        yield (
            MeasuredRun(
                client=client,
                profile=profile,
                prompts=PROMPTS,
                server=server,
                key=key if baseline else None,
            ),
            seen,
        )
        client.close()


def test_a_certain_verdict_ends_the_run() -> None:
    with run(accepting(1.0), floors=Floors(accept_length=2.0)) as (measuring, seen):
        acceptance = measuring.measured.acceptance
        judged = measuring.judgements.accept_length
    assert judged is not None
    assert judged.outcome is Outcome.MISSED
    assert (len(seen), acceptance.prompts, acceptance.planned) == (4, 4, COUNT)
    assert acceptance.stopped == "the verdict was certain"
    # A plain interval holds for fixed sizes alone: this run shows the one it stopped by.
    assert acceptance.accept_length == judged.interval


def test_nothing_asked_and_nothing_sequential_send_all() -> None:
    with run(accepting(2.0)) as (measuring, seen):
        assert measuring.measured.acceptance.prompts == COUNT
        assert measuring.judgements.accept_length is None
        assert len(seen) == COUNT
    whole = run(accepting(1.0), floors=Floors(accept_length=2.0), sequential=False)
    with whole as (measuring, seen):
        assert measuring.measured.acceptance.stopped == ""
        assert len(seen) == COUNT


def test_the_run_goes_on_until_every_question_is_answered() -> None:
    floors = Floors(accept_length=1.5, accept_rate=1 / 3)
    with run(accepting(2.0), floors=floors) as (measuring, _):
        judgements = measuring.judgements
    assert judgements.accept_length is not None
    assert judgements.accept_length.outcome is Outcome.REACHED
    assert judgements.accept_length.prompts < COUNT
    assert judgements.accept_rate is not None
    assert (judgements.accept_rate.outcome, judgements.accept_rate.prompts) == (Outcome.OPEN, COUNT)


def test_figures_are_over_all_prompts_though_a_verdict_was_certain_before(tmp_path: Path) -> None:
    floors = Floors(accept_length=1.2)
    with run(accepting(2.0), baseline=tmp_path) as (measuring, _):
        _ = measuring.baseline
    with run(accepting(2.0), floors=floors, baseline=tmp_path) as (measuring, seen):
        acceptance, judgements = measuring.measured.acceptance, measuring.judgements
    assert judgements.accept_length is not None
    assert judgements.accept_length.prompts < acceptance.prompts == len(seen) < COUNT
    assert acceptance.accept_length is not None
    assert acceptance.accept_length.n == acceptance.prompts
    pooled = 1 + acceptance.correct_drafts / acceptance.verify_steps
    assert acceptance.accept_length.value == pytest.approx(pooled)


def test_a_server_without_steps_or_answers_is_not_asked_for_long() -> None:
    def silent(handler: Handler, asked: dict[str, Any]) -> None:
        del asked
        handler.whole({"text": "x", "meta_info": {"completion_tokens": 9}})

    floors = Floors(accept_length=2.0)
    with run(silent, floors=floors) as (measuring, seen):
        acceptance = measuring.measured.acceptance
        assert acceptance.stopped == "no request took a verify step"
        assert acceptance.missing is not None
        assert len(seen) == 8
    with run(lambda handler, _: handler.whole({}, 500), floors=floors) as (measuring, seen):
        acceptance = measuring.measured.acceptance
        assert acceptance.stopped == "every request of a batch failed"
        assert (acceptance.failed_requests, len(seen)) == (4, 4)


def test_answers_without_steps_among_others_are_a_contradiction() -> None:
    def some(handler: Handler, asked: dict[str, Any]) -> None:
        if asked["text"] in ("prompt 3", "prompt 4"):
            tokens = 9 if asked["text"] == "prompt 3" else 1
            handler.whole({"text": "x", "meta_info": {"completion_tokens": tokens}})
        else:
            accepting(2.0)(handler, asked)

    with run(some) as (measuring, _):
        found = measuring.measured.acceptance.contradictions
    assert found == ("p3: 9 tokens without a verify step, while other requests took some",)


@pytest.mark.parametrize(
    ("key", "missing", "unreported"),
    [
        ("spec_num_correct_drafts", True, 0),
        ("spec_num_proposed_drafts", True, 0),
        ("spec_correct_drafts_histogram", False, 1),
    ],
)
def test_a_count_that_this_version_gives_and_this_server_does_not(
    key: str, *, missing: bool, unreported: int
) -> None:
    def some(handler: Handler, asked: dict[str, Any]) -> None:
        meta = counts(asked["text"], 2.0)
        if asked["text"] == "prompt 7":
            del meta[key]
        handler.whole({"text": "x", "meta_info": meta})

    with run(some) as (measured, _):
        acceptance = measured.measured.acceptance
    told = f"lack {key}, which SGLang 0.5.23 reports"
    assert (told in (acceptance.missing or "")) is missing
    assert len(acceptance.unreported) == unreported
    assert all(told in entry for entry in acceptance.unreported)


def test_progress_hears_of_every_batch() -> None:
    heard: list[tuple[Any, ...]] = []

    class Listener:
        def begin(self, what: str, total: int) -> None:
            heard.append((what, total))

        def say(self, what: str, done: float) -> None:
            """Nothing is measured without an estimate here."""

        def update(self, done: int, estimate: Interval | None, *, verify_steps: int = 0) -> None:
            heard.append((done, verify_steps, estimate is not None))

        def end(self) -> None:
            heard.append(("end",))

    with run(accepting(1.0), floors=Floors(accept_length=2.0)) as (measuring, _):
        measuring.progress = Listener()
        _ = measuring.measured
    assert heard[0] == ("accept length", COUNT)
    assert heard[1][0] == 4
    assert heard[-1] == ("end",)


def test_the_first_run_is_recorded_and_the_second_compared(tmp_path: Path) -> None:
    floors = Floors(accept_length=1.5)
    with run(accepting(2.0), floors=floors, baseline=tmp_path) as (measuring, seen):
        first = measuring.baseline
        assert first is not None
        assert first.state == "written"
        assert first.accept_length == pytest.approx(2.0)
        assert len(seen) == COUNT, "a baseline is made of all prompts"
        _ = measuring.throughput
    with run(accepting(2.0), floors=floors, baseline=tmp_path) as (measuring, seen):
        second, judged = measuring.baseline, measuring.judgements.baseline
        assert second is not None
        assert (second.state, second.differences) == ("alike", ())
        assert judged is not None
        assert judged.outcome is Outcome.REACHED
        assert second.pairs == judged.prompts < COUNT
        assert len(seen) == judged.prompts
        assert [entry["verdict"] for entry in measuring.history] == ["baseline"]
    entries = read(Path(second.path)).history
    assert [entry["verdict"] for entry in entries] == ["baseline", "reached"]
    assert "tokens_per_second" in entries[0]
    assert "tokens_per_second" not in entries[1]
    assert [entry["sglang"] for entry in entries] == [KEY.sglang] * 2
    assert [entry["per_position"] for entry in entries] == [list(SHARES)] * 2
    assert first.per_position == second.per_position == SHARES


def test_a_worse_run_is_found_and_does_not_become_the_baseline(tmp_path: Path) -> None:
    with run(accepting(2.0), baseline=tmp_path) as (measuring, _):
        _ = measuring.baseline
    with run(accepting(1.8), baseline=tmp_path) as (measuring, _):
        judged = measuring.judgements.baseline
        assert judged is not None
        assert judged.outcome is Outcome.MISSED
        assert judged.value == pytest.approx(-0.1, abs=0.005)
        _ = measuring.baseline
    data = json.loads((tmp_path / KEY.file).read_text())
    assert data["accept_length"] == pytest.approx(2.0)
    assert data["history"][-1]["verdict"] == "missed"


def test_another_key_is_compared_only_when_asked(tmp_path: Path) -> None:
    with run(accepting(2.0), baseline=tmp_path) as (measuring, _):
        _ = measuring.baseline
    newer = replace(KEY, sglang="0.5.24")
    with run(accepting(1.8), baseline=tmp_path, key=newer) as (measuring, _):
        seen = measuring.baseline
        assert seen is not None
        assert seen.state == "written"
        assert seen.nearest == str(tmp_path / KEY.file)
        assert seen.differences == ("sglang: 0.5.23 then, 0.5.24 now",)
        assert measuring.judgements.baseline is None
    before = (tmp_path / KEY.file).read_bytes()
    asked = run(accepting(1.8), baseline=tmp_path / KEY.file, key=newer)
    with asked as (measuring, _):
        seen, judged = measuring.baseline, measuring.judgements.baseline
        assert seen is not None
        assert judged is not None
        assert (seen.state, judged.outcome) == ("unlike", Outcome.MISSED)
    assert (tmp_path / KEY.file).read_bytes() == before


def test_the_history_goes_on_over_sglang_versions_and_nothing_else(tmp_path: Path) -> None:
    newer, other = replace(KEY, sglang="0.5.24"), replace(KEY, gpu="NVIDIA H200")
    (tmp_path / "notes.json").write_text("{}")
    for key in (KEY, other, newer):
        with run(accepting(2.0), baseline=tmp_path, key=key) as (measuring, _):
            _ = measuring.baseline
            told = [entry["sglang"] for entry in measuring.history]
    assert told == [KEY.sglang]


def test_update_replaces_the_counts_and_keeps_the_history(tmp_path: Path) -> None:
    with run(accepting(2.0), baseline=tmp_path) as (measuring, _):
        _ = measuring.baseline
    with run(accepting(1.8), baseline=tmp_path, update=True) as (measuring, seen):
        updated = measuring.baseline
        assert updated is not None
        assert updated.state == "updated"
        assert updated.accept_length == pytest.approx(1.8)
        assert len(seen) == COUNT
    assert [entry["verdict"] for entry in read(Path(updated.path)).history] == [
        "baseline",
        "baseline",
    ]


def test_a_named_file_is_written_only_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    with run(accepting(2.0), baseline=path) as (measuring, _):
        seen = measuring.baseline
    assert seen is not None
    assert (seen.state, path.exists()) == ("none", False)
    assert "No such file" in seen.problem
    with run(accepting(2.0), baseline=path, update=True) as (measuring, _):
        seen = measuring.baseline
    assert seen is not None
    assert seen.state == "written"
    assert read(path).accept_length == pytest.approx(2.0)


def test_a_run_with_failures_does_not_become_a_baseline(tmp_path: Path) -> None:
    def some(handler: Handler, asked: dict[str, Any]) -> None:
        if asked["text"] == "prompt 3":
            handler.whole({}, 500)
        else:
            accepting(2.0)(handler, asked)

    with run(some, baseline=tmp_path) as (measuring, _):
        seen = measuring.baseline
    assert seen is not None
    assert (seen.state, seen.problem) == ("none", "this run is not whole enough to become one")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_baseline_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / KEY.file).write_text("{")
    with run(accepting(2.0), baseline=tmp_path) as (measuring, _):
        seen = measuring.baseline
    assert seen is not None
    assert seen.state == "none"
    assert "is not JSON" in seen.problem
    assert (tmp_path / KEY.file).read_text() == "{"
