"""Drafted trees as the probe reports them, and as they are read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from eagle3_checks.server.drafts import read_drafts
from tests_cpu.inside.conftest import Facts

VOCAB, TOPK = 12, 2


class Worker:
    """Stands in for SGLang's draft worker: its three passes run the drafter."""

    def __init__(self, watch: Any) -> None:
        self.watch = watch
        self.rows: list[torch.Tensor] = []

    def run(self, rows: int) -> None:
        logits = torch.randn(rows, VOCAB)
        self.rows.append(logits)
        self.watch.forward(lambda _: SimpleNamespace(next_token_logits=logits), None)

    def prefill(self, batch: Any) -> None:
        self.watch.prefilled(lambda s, b: s.run(len(b.reqs)), self, batch)

    def extend(self, batch: Any, lengths: list[int], width: int) -> None:
        done = SimpleNamespace(accept_lens=torch.tensor(lengths))
        self.watch.extended(lambda s, b, _: s.run(len(b.reqs) * width), self, batch, done)

    def draft(self, batch: Any, tree: Any) -> Any:
        def original(worker: Worker, inner: Any) -> Any:
            for _ in range(2):
                worker.run(len(inner.reqs) * TOPK)
            return tree

        return self.watch.drafted(original, self, batch)


def a_batch(*rids: str) -> Any:
    return SimpleNamespace(
        reqs=[SimpleNamespace(rid=rid) for rid in rids],
        seq_lens=torch.tensor([7 + n for n in range(len(rids))]),
    )


def a_tree() -> Any:
    """Two trees of four nodes: 0 -> 1, 2 and 1 -> 3; a chain 0 -> 1 -> 2 -> 3."""
    return SimpleNamespace(
        draft_token=torch.tensor([9, 3, 4, 5, 8, 1, 2, 0]),
        retrieve_next_token=torch.tensor([[1, 3, -1, -1], [1, 2, 3, -1]]),
        retrieve_next_sibling=torch.tensor([[-1, 2, -1, -1], [-1, -1, -1, -1]]),
    )


def test_a_tree_is_reported_with_the_logits_behind_it(
    probe: Any, facts: Facts, tmp_path: Path
) -> None:
    worker = Worker(probe.drafts.DraftWatch(facts.recorder, 3))
    batch, tree = a_batch("a", "b"), a_tree()
    worker.prefill(batch)
    assert worker.draft(batch, tree) is tree
    worker.extend(batch, [1, 3], 4)
    worker.draft(batch, tree)
    assert not facts.of("error")
    seen = read_drafts(tmp_path / "facts")
    assert [(d.length, d.tokens, d.parents) for d in seen["a"]] == [
        (8, (9, 3, 4, 5), (-1, 0, 0, 1))
    ] * 2
    [first] = seen["b"]  # of the fourth tree nothing was asked
    assert (first.length, first.parents) == (9, (-1, 0, 1, 2))
    prefilled, one, two, extended = worker.rows[:4]
    assert [len(step) for step in first.top] == [1, TOPK, TOPK]
    assert_top(first.top[0][0], prefilled[1])
    assert_top(first.top[1][1], one[3])
    assert_top(first.top[2][0], two[2])
    assert_top(seen["a"][1].top[0][0], extended[0])


def assert_top(seen: Any, logits: torch.Tensor) -> None:
    values, ids = logits.topk(8)
    assert seen.ids == tuple(ids.tolist())
    assert seen.logits == pytest.approx(values.tolist())


def test_without_logits_the_tree_is_reported_alone(
    probe: Any, facts: Facts, tmp_path: Path
) -> None:
    watch = probe.drafts.DraftWatch(facts.recorder, 9)
    watch.drafted(lambda _, __: a_tree(), None, a_batch("a", "b"))
    assert [d.top for d in read_drafts(tmp_path / "facts")["a"]] == [()]


def test_what_the_probe_cannot_read_does_not_stop_the_server(probe: Any, facts: Facts) -> None:
    watch = probe.drafts.DraftWatch(facts.recorder, 9)
    assert watch.drafted(lambda _, __: "a tree", None, a_batch("a")) == "a tree"
    assert [line["where"] for line in facts.of("error")] == ["draft"]


@pytest.mark.parametrize(("text", "most"), [("", 0), ("12", 12), ("-1", 0), ("many", 0)])
def test_it_is_off_unless_asked_for(
    probe: Any, monkeypatch: pytest.MonkeyPatch, text: str, most: int
) -> None:
    monkeypatch.setenv("EAGLE3_PROBE_DRAFTS", text)
    assert probe.drafts.wanted() == most
