"""Drafted trees against a drafter that is run token by token, as a server runs it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3_checks.profile import Speculation
from eagle3_checks.reference.drafter import Drafter
from eagle3_checks.reference.drafting import Trees, draft_trees
from tests_cpu.reference.small import make

FORMS = [
    Speculation(),
    Speculation(steps=3, topk=4, draft_tokens=8),
    Speculation(steps=5, topk=2, draft_tokens=6),
]


class Served:
    """One request of a server: the drafter's cache a slot a row, filled one token at a time."""

    def __init__(self, drafter: Drafter, tokens: torch.Tensor, aux: torch.Tensor) -> None:
        """`tokens` [t + 2] and `aux` [t + 1, K*Ht]: what is known at root t."""
        self.drafter = drafter
        self.fed, self.states = tokens[1:], drafter.fuse(aux[None])[0]

    def run(self, fed: list[int], states: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Run the whole text, then a row's own tokens on its own states, in one causal pass."""
        tokens = torch.cat([self.fed, torch.tensor(fed, dtype=torch.long)])
        hidden = torch.cat([self.states, *(state[None] for state in states)])
        logits, out = self.drafter.step(tokens[None], hidden[None], 0, self.drafter.begin())
        return logits[0, -1], out[0, -1]


def tree_of(
    served: Served, speculation: Speculation
) -> tuple[list[int], list[int], list[torch.Tensor]]:
    """Tokens, parents and logits of a tree, by the rules alone: proposals, products, the best."""
    topk, kept = speculation.topk, served.drafter.kept.tolist()
    proposed: list[tuple[float, int, int]] = []  # score, token, number of the parent's proposal
    logits, hidden = served.run([], [])
    behind = [logits]
    chance, ids = logits.softmax(-1).topk(topk)
    proposed += [(c, kept[i], -1) for c, i in zip(chance.tolist(), ids.tolist(), strict=True)]
    branches = list(range(topk))
    rows: list[tuple[list[int], list[torch.Tensor]]] = [([], []) for _ in range(topk)]
    states = [hidden] * topk
    for _ in range(speculation.steps - 1):
        begin, outs = len(proposed), []
        for row, branch in enumerate(branches):
            fed, seen = rows[row]
            fed.append(proposed[branch][1])
            seen.append(states[row])
            logits, out = served.run(fed, seen)
            outs.append(out)
            behind.append(logits)
            chance, ids = logits.softmax(-1).topk(topk)
            proposed += [
                (proposed[branch][0] * c, kept[i], branch)
                for c, i in zip(chance.tolist(), ids.tolist(), strict=True)
            ]
        best = sorted(range(begin, len(proposed)), key=lambda n: -proposed[n][0])[:topk]
        branches, states = best, [outs[(n - begin) // topk] for n in best]
    order = sorted(range(len(proposed)), key=lambda n: -proposed[n][0])
    nodes = sorted(order[: speculation.draft_tokens - 1])
    place = {-1: 0} | {number: node for node, number in enumerate(nodes, start=1)}
    parents = [-1] + [place.get(proposed[n][2], -1) for n in nodes]
    return [proposed[n][1] for n in nodes], parents, behind


@torch.no_grad()
@pytest.mark.parametrize("speculation", FORMS, ids=("chain", "tree", "deep"))
def test_trees_drafted_at_once_equal_one_drafted_token_by_token(speculation: Speculation) -> None:
    drafter = make()
    drafter.lm_head.weight *= 12  # sure of itself, so that a branch may beat its elders
    tokens, aux = torch.randint(50, (9,)), torch.randn(9, 48)
    roots = (1, 3, 7)
    trees = draft_trees(drafter, aux, tokens, torch.tensor(roots), speculation)
    for row, root in enumerate(roots):
        served = Served(drafter, tokens[: root + 2], aux[: root + 1])
        drafted, parents, behind = tree_of(served, speculation)
        ours = torch.cat([logits[row] for logits in trees.logits])
        torch.testing.assert_close(ours, torch.stack(behind), rtol=0, atol=1e-4)
        assert trees.tokens[row].tolist() == [tokens[root + 1].item(), *drafted]
        assert trees.parents[row].tolist() == parents


@settings(max_examples=30, deadline=None)
@given(steps=st.integers(1, 5), topk=st.integers(1, 4), data=st.data())
def test_a_tree_is_a_tree(steps: int, topk: int, data: st.DataObject) -> None:
    most = topk + (steps - 1) * topk**2 + 1
    nodes = steps + 1 if topk == 1 else data.draw(st.integers(2, most))
    form = Speculation(steps=steps, topk=topk, draft_tokens=nodes)
    tokens, aux = torch.randint(50, (6,)), torch.randn(6, 48)
    trees = draft_trees(make(), aux, tokens, torch.arange(5), form)
    assert trees.tokens.shape == trees.parents.shape == (5, nodes)
    for drafted, parents in zip(trees.tokens.tolist(), trees.parents.tolist(), strict=True):
        assert parents[0] == -1
        assert all(0 <= parent < node for node, parent in enumerate(parents) if node)
        siblings = list(zip(parents[1:], drafted[1:], strict=True))
        assert len(set(siblings)) == len(siblings)


def test_greedy_verification_takes_the_child_that_the_text_takes() -> None:
    tokens = torch.tensor([[9, 3, 4, 5, 6, 5]])
    trees = Trees(tokens, torch.tensor([[-1, 0, 0, 2, 3, 1]]), [])
    assert trees.correct(0, torch.tensor([4, 5, 6, 7])) == 3
    assert trees.correct(0, torch.tensor([3, 5, 6])) == 2
    assert trees.correct(0, torch.tensor([5, 5])) == 0
    assert trees.correct(0, torch.tensor([4])) == 1
