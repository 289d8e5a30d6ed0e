"""The reference against the real server: drafted trees, logits, and what becomes of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from eagle3_checks.facts import RequestSample
from eagle3_checks.measure.client import Answer, Client, send_all
from eagle3_checks.measure.prompts import load_prompts
from eagle3_checks.profile import Profile, Prompts, Speculation
from eagle3_checks.reference.drafting import Trees
from eagle3_checks.reference.oracle import Asked, Plan, verified
from eagle3_checks.server.drafts import DRAFTS, DraftSeen, read_drafts
from eagle3_checks.server.open import open_server
from eagle3_checks.settings import resolve
from tests_cpu.serve.running import TINY as TINY_PAIR
from tests_cpu.serve.running import Run

NEW_TOKENS = 48
PROMPTS = load_prompts(Prompts(sets=("heldout-code",), limit=64)).prompts
TINY = resolve("tiny", environ={}).profile
FORMS = {
    "3-1-4": Speculation(),
    "5-1-6": Speculation(steps=5, draft_tokens=6),
    "3-4-8": Speculation(topk=4, draft_tokens=8),
}
CLOSE = 1e-4
"""Largest difference of two logits in float32."""


def serve(profile: Profile, artefacts: Path) -> tuple[list[Answer], dict[str, list[DraftSeen]]]:
    """Send all prompts; return the answers and, by their ids, the trees that were drafted."""
    server = dataclasses.replace(profile.server, env=dict(profile.server.env) | {DRAFTS: "100000"})
    with open_server(dataclasses.replace(profile, server=server), artefacts) as running:
        client = Client(running.url)
        try:
            answers, failures = send_all(
                lambda p: client.generate(p, max_new_tokens=NEW_TOKENS), PROMPTS, concurrency=8
            )
        finally:
            client.close()
    assert failures == []
    return answers, read_drafts(artefacts / "probe")


def reference(profile: Profile) -> Iterator[tuple[RequestSample, Trees, list[tuple[int, int]]]]:
    """Yield the counts of each prompt, its trees, and the rows and lengths verified."""
    plan = Plan(
        target=Path(profile.target.path),
        drafter=Path(profile.drafter.path),
        boundaries=(2, 4, 5),
        speculation=profile.speculation,
        new_tokens=NEW_TOKENS,
        ends=(1,),
    )
    asked = [Asked(prompt_id=p.id, prompt_set=p.set, text=p.text) for p in PROMPTS]
    for sample, trees, walk in verified(plan, asked):
        yield sample, trees, [(step.row, step.known) for step in walk]


@pytest.mark.parametrize("form", FORMS)
def test_the_server_drafts_what_the_reference_drafts(form: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    profile = dataclasses.replace(TINY, speculation=FORMS[form])
    answers, drafts = serve(profile, tmp_path)
    by_prompt = {answer.prompt.id: answer for answer in answers}
    compared = 0
    for sample, trees, walk in reference(profile):
        meta = by_prompt[sample.prompt_id].meta
        seen = drafts[meta["id"]][: len(walk)]
        assert [(d.length, d.tokens, d.parents) for d in seen] == [
            (known, tuple(trees.tokens[row].tolist()), tuple(trees.parents[row].tolist()))
            for row, known in walk
        ], sample.prompt_id
        for drafted, (row, _) in zip(seen, walk, strict=True):
            compared += logits_agree(drafted, trees, row)
        histogram = sample.histogram or ()
        assert [n for n in histogram if n] == [n for n in served_histogram(meta) if n]
        assert histogram[: len(served_histogram(meta))] == served_histogram(meta)
        assert meta["completion_tokens"] == sample.completion_tokens
    assert len(by_prompt) == len(PROMPTS) == 64
    assert compared > 10_000


def served_histogram(meta: Mapping[str, Any]) -> tuple[int, ...]:
    """Return what the server counted; it ends with the most drafts that were ever correct."""
    return tuple(meta["spec_correct_drafts_histogram"])


def logits_agree(seen: DraftSeen, trees: Trees, row: int) -> int:
    """Compare the likeliest logits of every branch; return how many there were."""
    compared = 0
    assert len(seen.top) == len(trees.logits)
    for step, ours in zip(seen.top, trees.logits, strict=True):
        for branch, logits in zip(step, ours[row], strict=True):
            wanted = torch.tensor(branch.logits)
            torch.testing.assert_close(logits[list(branch.ids)], wanted, rtol=0, atol=CLOSE)
            compared += len(wanted)
    return compared


def test_a_gate_replays_what_it_served(run_gate: Callable[..., Run]) -> None:
    """Here on the states of a server without a drafter; above they are transformers'."""
    run = run_gate(TINY_PAIR, "--replay", "server")
    assert run.code == 0, run.output
    replayed = run.result["measurements"]["replayed"]
    assert replayed["source"] == "server"
    offline, served = replayed["acceptance"], run.acceptance()
    for figure in ("prompts", "verify_steps", "correct_drafts", "proposed_drafts", "per_position"):
        assert offline[figure] == served[figure], figure
    assert served["verify_steps"] > 100
    assert "offline, on aux states from a server without a drafter" in run.output
