"""What the probe writes down of the draft worker's prefill and of its drafts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from eagle3_checks.reference import digest

WIDTH = 8


class Inner(nn.Module):
    def __init__(self, embedding: torch.Tensor) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(*embedding.shape)
        self.embed_tokens.weight = nn.Parameter(embedding, requires_grad=False)


class Drafter(nn.Module):
    def __init__(self, embedding: torch.Tensor, head: torch.Tensor, ids: Any = None) -> None:
        super().__init__()
        self.model = Inner(embedding)
        self.lm_head = nn.Linear(WIDTH, len(head), bias=False)
        self.lm_head.weight = nn.Parameter(head, requires_grad=False)
        self.hot_token_id = ids


def worker(ids: Any = None) -> Any:
    embedding, head = torch.randn(20, WIDTH), torch.randn(20, WIDTH)
    target = SimpleNamespace(
        model=SimpleNamespace(get_embed_and_head=lambda: (embedding, head)),
        model_config=SimpleNamespace(hidden_size=WIDTH, vocab_size=20),
    )
    drafter = Drafter(embedding, torch.randn(6, WIDTH), ids)
    return SimpleNamespace(
        target_worker=SimpleNamespace(model_runner=target),
        draft_runner=SimpleNamespace(model=drafter),
        shared=(embedding, head),
    )


def batch(*lengths: int, prefix: int = 0) -> Any:
    return SimpleNamespace(
        forward_mode=SimpleNamespace(is_idle=lambda: False),
        extend_lens=list(lengths),
        prefix_lens=[prefix] * len(lengths),
        input_ids=torch.arange(sum(lengths)),
    )


def run(watch: Any, given: Any, prompts: Any, hidden: torch.Tensor) -> None:
    result = watch.prefill(lambda *_: "next", given, prompts, hidden, "tokens")
    assert result == "next"


def test_aux_states_of_the_first_prompts(facts: Any, probe: Any) -> None:
    watch = probe.prefill.PrefillWatch(facts.recorder)
    hidden = torch.randn(5 + 20, 3 * WIDTH)
    run(watch, worker(), batch(5, 20), hidden)
    run(watch, worker(), batch(4), torch.randn(4, 3 * WIDTH))
    run(watch, worker(), batch(3), torch.randn(3, 3 * WIDTH))
    first, second, third = facts.of("states")
    assert not facts.of("error")
    assert first["tokens"] == [0, 1, 2, 3, 4]
    assert second["tokens"] == list(range(5, 5 + 16))
    assert third["tokens"] == [0, 1, 2, 3]
    assert (first["width"], first["hidden_size"], first["dtype"]) == (24, 8, "float32")
    assert [len(state["rows"]) for state in second["states"]] == [16 * 16] * 3
    middle = second["states"][1]
    true = digest.digest(hidden[5 : 5 + 16, WIDTH : 2 * WIDTH])
    assert middle["rows"] == pytest.approx(true.rows, rel=1e-8, abs=1e-12)
    assert middle["norm"] == pytest.approx(true.norm)
    assert middle["mean"] == pytest.approx(true.mean)


def test_prompts_behind_a_prefix_and_of_one_token_are_passed_over(facts: Any, probe: Any) -> None:
    watch = probe.prefill.PrefillWatch(facts.recorder)
    run(watch, worker(), batch(5, prefix=3), torch.randn(5, 3 * WIDTH))
    run(watch, worker(), batch(1), torch.randn(1, 3 * WIDTH))
    assert facts.of("states") == []


def test_the_probe_and_the_reference_project_alike(probe: Any) -> None:
    for width in (1, 8, 384, 7168):
        mine, theirs = probe.digest.signs(width), digest.signs(width)
        assert torch.equal(mine, theirs)
        assert set(mine.flatten().tolist()) <= {-1.0, 1.0}
    assert (probe.digest.TOKENS, probe.digest.PROJECTIONS) == (digest.TOKENS, digest.PROJECTIONS)
    # Directions that are near one another would tell layers apart badly.
    directions = digest.signs(4096) / 64
    apart = directions.T @ directions - torch.eye(16, dtype=torch.float64)
    assert apart.abs().max() < 0.1
    assert directions.mean().abs() < 0.001


@pytest.mark.parametrize(
    ("make", "embedding", "head"),
    [
        (lambda e, h: (e, h), "same", "same"),
        (lambda e, h: (e.clone(), h.clone()), "equal", "equal"),
        (lambda e, h: (e.roll(1, 0), h[:6]), "other", "size"),
    ],
)
def test_whose_embedding_and_head(
    facts: Any, probe: Any, make: Any, embedding: str, head: str
) -> None:
    given = worker()
    given.draft_runner.model = Drafter(*make(*given.shared))
    watch = probe.prefill.PrefillWatch(facts.recorder)
    for _ in range(2):
        run(watch, given, batch(2), torch.randn(2, 3 * WIDTH))
    fact = facts.only("heads")
    assert (fact["embedding"], fact["head"]) == (embedding, head)


def test_the_first_values_of_each_matrix(facts: Any, probe: Any) -> None:
    given = worker()
    head = given.draft_runner.model.lm_head.weight
    run(probe.prefill.PrefillWatch(facts.recorder), given, batch(2), torch.randn(2, 3 * WIDTH))
    seen = facts.only("corners")["parameters"]
    assert set(seen) == {"lm_head.weight", "model.embed_tokens.weight"}
    assert seen["lm_head.weight"] == head[:4, :4].double().tolist()


def drafts(*tokens: int) -> Any:
    return SimpleNamespace(draft_token=torch.tensor([19, *tokens]), draft_token_num=len(tokens) + 1)


def test_drafts_outside_of_the_map(facts: Any, probe: Any) -> None:
    watch = probe.prefill.PrefillWatch(facts.recorder)
    given = worker(ids=torch.tensor([3, 5, 7, 30]))
    for number in range(1, 100):
        tree = drafts(3, 5, 7 if number % 2 else 4)
        assert watch.draft(lambda _, made=tree: made, given) is tree
    seen = [(f["calls"], f["tokens"], f["outside"]) for f in facts.of("drafted")]
    assert seen == [(n, 3 * n, n // 2) for n in (1, 2, 4, 8, 16, 32, 64)]
    last = facts.of("drafted")[-1]
    assert (last["examples"], last["allowed"]) == ([4, 4, 4, 4], 3)
    assert not facts.of("error")


def test_without_a_map_all_of_the_targets_ids_may_be_drafted(facts: Any, probe: Any) -> None:
    watch = probe.prefill.PrefillWatch(facts.recorder)
    pair = (drafts(3, 19, 20), "parents", "scores")
    assert watch.draft(lambda _: pair, worker()) == pair
    fact = facts.only("drafted")
    assert (fact["outside"], fact["examples"], fact["allowed"]) == (1, [20], 20)


def test_what_is_no_tree_is_passed_over(facts: Any, probe: Any) -> None:
    watch = probe.prefill.PrefillWatch(facts.recorder)
    assert watch.draft(lambda _: None, worker()) is None
    assert facts.lines() == []


def test_a_fault_of_the_probe_spares_the_server(facts: Any, probe: Any) -> None:
    watch = probe.prefill.PrefillWatch(facts.recorder)
    run(watch, SimpleNamespace(), batch(2), torch.randn(2, 3 * WIDTH))
    assert {line["where"] for line in facts.of("error")} == {"states", "heads", "corners"}
