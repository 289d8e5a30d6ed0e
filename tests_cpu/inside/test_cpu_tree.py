"""Tree construction and greedy verification against trees grown in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

FULL_MASK, QLEN_ONLY, BITPACKED = 0, 1, 2
ROOT = -1

Forest = tuple[int, int, list["Tree"]]
"""topk, steps, and the trees of a batch, all with the same number of nodes."""


@dataclass
class Tree:
    """A draft tree as the drafter proposes it, and as its nodes in order of selection."""

    parent_list: list[int]
    selected: list[int]
    parents: list[int] = field(default_factory=list)
    """Parent node of nodes 1, 2, …; node 0 is the root."""

    def depth(self, node: int) -> int:
        return 0 if node == 0 else 1 + self.depth(self.parents[node - 1])

    def ancestors(self, node: int) -> set[int]:
        return {0} if node == 0 else {node} | self.ancestors(self.parents[node - 1])

    def children(self, node: int) -> list[int]:
        return [child for child, parent in enumerate(self.parents, start=1) if parent == node]


def candidate_parents(draw: Any, topk: int, steps: int) -> tuple[list[int], dict[int, int]]:
    """Play the drafter: ``topk`` beams go on from step to step, each with ``topk`` candidates.

    Candidates are numbered through: ``topk`` in the first step, ``topk * topk`` in each later one.
    ``parent_list`` is what SGLang keeps of the beams: -1 for the root, then each step's beams.
    """
    parent_of = dict.fromkeys(range(topk), ROOT)
    beams = list(range(topk))
    parent_list = [ROOT]
    for step in range(1, steps):
        parent_list += beams
        first = topk + (step - 1) * topk * topk
        parent_of |= {first + at: beams[at // topk] for at in range(topk * topk)}
        beams = draw(st.permutations(range(first, first + topk * topk)))[:topk]
    return parent_list, parent_of


@st.composite
def forests(draw: Any) -> Forest:
    topk, steps, batch = (draw(st.integers(1, 4)) for _ in range(3))
    drafted = [candidate_parents(draw, topk, steps) for _ in range(batch)]
    size = draw(st.integers(1, min(9, topk + (steps - 1) * topk * topk)))
    trees = []
    for parent_list, parent_of in drafted:
        chosen: list[int] = []
        while len(chosen) < size:
            open_ = [c for c, p in parent_of.items() if c not in chosen and p in {ROOT, *chosen}]
            chosen.append(draw(st.sampled_from(open_)))
        chosen.sort()
        tree = Tree(parent_list, chosen)
        node_of = {ROOT: 0} | {candidate: at for at, candidate in enumerate(chosen, start=1)}
        tree.parents = [node_of[parent_of[candidate]] for candidate in chosen]
        trees.append(tree)
    return topk, steps, trees


@dataclass
class Built:
    mask: torch.Tensor
    positions: torch.Tensor
    index: torch.Tensor
    next_token: torch.Tensor
    next_sibling: torch.Tensor


def build(
    kernels: Any, forest: Forest, lengths: list[int] | None = None, mode: int = QLEN_ONLY
) -> Built:
    topk, steps, trees = forest
    lengths = lengths or [4] * len(trees)
    nodes = len(trees[0].selected) + 1
    cells = nodes * (nodes * len(trees) + (sum(lengths) if mode == FULL_MASK else 0))
    built = Built(
        torch.ones(cells, dtype=torch.bool),
        torch.full((len(trees) * nodes,), -7),
        *torch.full((3, len(trees), nodes), -1),
    )
    kernels.build_tree_kernel_efficient_cpu(
        torch.tensor([tree.parent_list for tree in trees]),
        torch.tensor([tree.selected for tree in trees]),
        torch.tensor(lengths),
        built.mask,
        built.positions,
        built.index,
        built.next_token,
        built.next_sibling,
        topk,
        steps,
        nodes,
        mode,
    )
    return built


@given(forest=forests(), data=st.data(), mode=st.sampled_from([FULL_MASK, QLEN_ONLY]))
@settings(max_examples=80, deadline=None)
def test_tree_is_built(kernels: Any, forest: Forest, data: Any, mode: int) -> None:
    _, _, trees = forest
    lengths = [data.draw(st.integers(1, 6)) for _ in trees]
    built = build(kernels, forest, lengths, mode)
    nodes = len(trees[0].selected) + 1

    mask: list[bool] = []
    for tree, length in zip(trees, lengths, strict=True):
        for node in range(nodes):
            if mode == FULL_MASK:
                mask += [True] * length
            mask += [other in tree.ancestors(node) for other in range(nodes)]
    assert built.mask.tolist() == mask

    assert built.positions.tolist() == [
        length + tree.depth(node)
        for tree, length in zip(trees, lengths, strict=True)
        for node in range(nodes)
    ]
    assert built.index.flatten().tolist() == list(range(len(trees) * nodes))
    for request, tree in enumerate(trees):
        for node in range(nodes):
            child = int(built.next_token[request, node])
            children = []
            while child != -1:
                children.append(child)
                child = int(built.next_sibling[request, child])
            assert children == tree.children(node)


@given(forest=forests(), data=st.data())
@settings(max_examples=80, deadline=None)
def test_tree_is_verified(kernels: Any, forest: Forest, data: Any) -> None:
    _, steps, trees = forest
    built = build(kernels, forest)
    nodes = len(trees[0].selected) + 1
    token = st.integers(0, 2)
    per_node = st.lists(token, min_size=nodes, max_size=nodes)
    drafted = [data.draw(per_node) for _ in trees]
    wanted = [data.draw(per_node) for _ in trees]

    predicts = torch.full((len(trees) * nodes,), -7, dtype=torch.int32)
    accept_index = torch.full((len(trees), steps + 1), -1, dtype=torch.int32)
    accepted_drafts = torch.full((len(trees),), -7, dtype=torch.int32)
    kernels.verify_tree_greedy_cpu(
        predicts=predicts,
        accept_index=accept_index,
        accept_token_num=accepted_drafts,
        candidates=torch.tensor(drafted),
        retrive_index=built.index,
        retrive_next_token=built.next_token,
        retrive_next_sibling=built.next_sibling,
        target_predict=torch.tensor(wanted),
    )

    left = [-7] * len(predicts)
    for request, tree in enumerate(trees):
        path = [0]
        while matching := [
            child
            for child in tree.children(path[-1])
            if drafted[request][child] == wanted[request][path[-1]]
        ]:
            path.append(matching[0])
        at = [request * nodes + node for node in path]
        assert accept_index[request].tolist() == at + [-1] * (steps + 1 - len(at))
        assert accepted_drafts[request] == len(path) - 1
        for index, node in zip(at, path, strict=True):
            left[index] = wanted[request][node]
    assert predicts.tolist() == left


def test_chain_is_accepted_up_to_the_first_mistake(kernels: Any) -> None:
    chain = Tree([ROOT, 0, 1], [0, 1, 2], [0, 1, 2])
    built = build(kernels, (1, 3, [chain]))
    predicts, accept_index = torch.zeros(4, dtype=torch.int32), torch.full((1, 4), -1)
    accepted_drafts = torch.zeros(1, dtype=torch.int32)
    kernels.verify_tree_greedy_cpu(
        predicts,
        accept_index,
        accepted_drafts,
        torch.tensor([[10, 11, 12, 99]]),
        built.index,
        built.next_token,
        built.next_sibling,
        torch.tensor([[11, 12, 13, 14]]),
    )
    assert accept_index.tolist() == [[0, 1, 2, -1]]
    assert accepted_drafts.tolist() == [2]
    assert predicts.tolist() == [11, 12, 13, 0]


def test_one_step_needs_no_parents(kernels: Any) -> None:
    built = build(kernels, (3, 1, [Tree([], [1, 2], [0, 0])]))
    assert built.next_token.tolist() == [[1, -1, -1]]
    assert built.next_sibling.tolist() == [[-1, 2, -1]]
    assert built.positions.tolist() == [4, 5, 5]


def test_node_without_a_selected_parent_hangs_from_nothing(kernels: Any) -> None:
    # Candidate 2 comes from candidate 0, which equal scores may leave out.
    built = build(kernels, (2, 2, [Tree([ROOT, 0, 1], [1, 2])]))
    assert built.next_token.tolist() == [[1, -1, -1]]
    assert built.next_sibling.tolist() == [[-1, -1, -1]]
    assert built.mask.view(3, 3)[2].tolist() == [True, False, True]


def test_refuses_packed_masks(kernels: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"build_tree_kernel.* tree mask mode 2"):
        build(kernels, (1, 1, [Tree([ROOT], [0])]), mode=BITPACKED)
