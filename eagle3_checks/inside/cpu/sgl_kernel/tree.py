"""The draft tree: its construction from the drafter's top scores, and greedy verification.

Argument orders: ``sglang/kernels/ops/speculative/spec_tree.py`` of SGLang 0.5.23. A tree has n
nodes per request: node 0 is the last verified token, nodes 1 to n - 1 the selected draft tokens.
"""

# The kernels' signatures are SGLang's.
# ruff: noqa: PLR0913, PLR0917

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .signature import kernel, unsupported

if TYPE_CHECKING:
    from torch import Tensor

FULL_MASK = 0
QLEN_ONLY = 1


@kernel
def build_tree_kernel_efficient_cpu(
    parent_list: Tensor,
    selected_index: Tensor,
    verified_seq_len: Tensor,
    tree_mask: Tensor,
    positions: Tensor,
    retrieve_index: Tensor,
    retrieve_next_token: Tensor,
    retrieve_next_sibling: Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Fill mask, positions and child links of each request's tree; the last five are the outputs.

    ``selected_index`` [requests, n - 1] holds the selected candidates, sorted. Candidate c was
    drafted from entry ``c // topk`` of ``parent_list`` [requests, entries], whose value is a
    candidate again; entry 0 is the root. A node links to its first child (``retrieve_next_token``)
    and to its next sibling, -1 where there is none, siblings in order of selection. ``positions``
    is the sequence length plus the depth in the tree. A mask row shows a node its ancestors and
    itself; mode 0 puts it behind the request's prefix, mode 1 into an n x n block.
    """
    if tree_mask_mode not in (FULL_MASK, QLEN_ONLY):
        raise unsupported("build_tree_kernel_efficient_cpu", f"tree mask mode {tree_mask_mode}")
    nodes = draft_token_num
    lengths = verified_seq_len.tolist()
    mask_start = 0
    for request, length in enumerate(lengths):
        parents = _parents(selected_index[request].tolist(), parent_list[request].tolist(), topk)
        next_token, next_sibling = _links(parents)
        paths = [_path(node, parents, depth) for node in range(nodes)]
        first = request * nodes
        retrieve_index[request] = torch.arange(first, first + nodes)
        retrieve_next_token[request] = torch.tensor(next_token)
        retrieve_next_sibling[request] = torch.tensor(next_sibling)
        positions[first : first + nodes] = torch.tensor([length + len(path) for path in paths])
        width = nodes + (length if tree_mask_mode == FULL_MASK else 0)
        rows = tree_mask[mask_start : mask_start + nodes * width].view(nodes, width)
        mask_start += nodes * width
        rows[:, -nodes:] = torch.tensor(
            [[node == 0 or node in path for node in range(nodes)] for path in paths]
        )


def _parents(selected: list[int], parent_list: list[int], topk: int) -> list[int | None]:
    """Parent of each node; None for the root and for a node whose parent was not selected."""
    node_of: dict[int, int] = {}
    for node, candidate in enumerate(selected, start=1):
        node_of.setdefault(candidate, node)
    parents: list[int | None] = [None]
    for candidate in selected:
        entry = candidate // topk
        parents.append(0 if entry == 0 else node_of.get(parent_list[entry]))
    return parents


def _links(parents: list[int | None]) -> tuple[list[int], list[int]]:
    """First child and next sibling of each node, -1 for none."""
    next_token, next_sibling = [-1] * len(parents), [-1] * len(parents)
    for node in range(len(parents) - 1, 0, -1):
        parent = parents[node]
        if parent is not None:
            next_sibling[node] = next_token[parent]
            next_token[parent] = node
    return next_token, next_sibling


def _path(node: int, parents: list[int | None], depth: int) -> list[int]:
    """Nodes from ``node`` up to below the root, at most ``depth`` of them."""
    path: list[int] = []
    at: int | None = node
    while at and len(path) < depth:
        path.append(at)
        at = parents[at]
    return path


@kernel
def verify_tree_greedy_cpu(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:
    """Walk down each tree while a child is the target's choice; the first three are the outputs.

    ``candidates`` and ``target_predict`` [requests, n] are the tokens at the nodes and the target's
    argmax after them. ``accept_index`` [requests, depth] takes the accepted nodes from the root on,
    ``accept_token_num`` their number without the root, and ``predicts`` [requests * n], at each
    accepted node, the target's token after it: the last of them is the bonus token.
    """
    depth = accept_index.shape[1]
    tokens, wanted = candidates.tolist(), target_predict.flatten().tolist()
    indices = retrive_index.tolist()
    children, siblings = retrive_next_token.tolist(), retrive_next_sibling.tolist()
    for request in range(len(tokens)):
        node = 0
        accepted = [indices[request][0]]
        while len(accepted) < depth:
            token = wanted[accepted[-1]]
            child = children[request][node]
            while child != -1 and tokens[request][child] != token:
                child = siblings[request][child]
            if child == -1:
                break
            node = child
            accepted.append(indices[request][node])
        accept_index[request, : len(accepted)] = torch.tensor(accepted)
        accept_token_num[request] = len(accepted) - 1
        for index in accepted:
            predicts[index] = wanted[index]
