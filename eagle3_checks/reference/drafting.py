"""Drafted trees, chains among them, as SGLang 0.5.23 drafts them.

Source read: `draft_forward` of `sglang/srt/speculative/eagle_worker_v2.py`, `select_top_k_tokens`
of `spec_utils.py`, `organize_draft_results` of `eagle_utils.py`.

Each step every branch proposes its `topk` likeliest tokens; the `topk` best of all by the product
of probabilities along their paths become the branches of the next step. Of everything proposed the
best `draft_tokens - 1` form the tree. Drafts of many roots are independent and made at once.

Shapes: T positions of a text, R roots, b branches (topk), n nodes of a tree (draft tokens).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from eagle3_checks.profile import Speculation
    from eagle3_checks.reference.drafter import Drafter


@dataclass(frozen=True, slots=True)
class Trees:
    """One tree a root, its nodes in SGLang's order; node 0 is the last verified token."""

    tokens: Tensor
    """[R, n]: target ids."""
    parents: Tensor
    """[R, n]: the parent's node; -1 for node 0."""
    logits: list[Tensor]
    """Of each step, [R, 1, Vd] at first and [R, b, Vd] then: what was proposed from."""

    def correct(self, row: int, text: Tensor) -> int:
        """Return how many drafts on one path are the text's [*]: what greedy verification takes.

        `text` begins with the token after the last verified one.
        """
        tokens, parents = self.tokens[row].tolist(), self.parents[row].tolist()
        node = depth = 0
        for wanted in text.tolist():
            children = (n for n, parent in enumerate(parents) if parent == node and n)
            found = next((n for n in children if tokens[n] == wanted), None)
            if found is None:
                break
            node, depth = found, depth + 1
        return depth


@torch.no_grad()
def draft_trees(
    drafter: Drafter, aux: Tensor, tokens: Tensor, roots: Tensor, speculation: Speculation
) -> Trees:
    """Draft from some positions of a text: tokens [T], their aux states, roots [R].

    Root t knows the tokens up to t + 1, and the aux states up to t. It drafts for t + 2 and on. The
    last token's state is not needed: aux are [T, K*Ht] or [T - 1, K*Ht].
    """
    topk = speculation.topk
    states, fed = drafter.fuse(aux[None, : len(tokens) - 1]), tokens[None, 1:]
    memory = drafter.begin(roots.repeat_interleave(topk))
    normed, states = drafter.advance(fed, states, 0, memory)
    logits, hidden = drafter.lm_head(normed[0, roots])[:, None], states[0, roots][:, None]
    grown, rows = _Growth(topk), torch.arange(len(roots), device=roots.device)[:, None]
    drafted = [logits]
    for depth in range(1, speculation.steps + 1):
        chosen, parents = grown.choose(logits, drafter.kept)
        if depth == speculation.steps:
            break
        fed, states = chosen.reshape(1, -1), hidden[rows, parents].flatten(0, 1)[None]
        logits, states = drafter.step(fed, states, depth, memory)
        logits, hidden = (x.view(len(roots), topk, -1) for x in (logits, states))
        drafted.append(logits)
    nodes, parents = grown.tree(speculation.draft_tokens)
    last = tokens[roots + 1][:, None]
    return Trees(torch.cat([last, nodes], dim=1), parents, drafted)


class _Growth:
    """What was proposed so far, by the numbers under which SGLang keeps it.

    Candidate c < b was proposed at the root. Those of step s >= 1 follow, b x b a step, in the
    order of the branches they were proposed by.
    """

    def __init__(self, topk: int) -> None:
        self.topk = topk
        self.scores: list[Tensor] = []
        self.tokens: list[Tensor] = []
        self.origins: list[Tensor] = []
        """Of each step's branches [R, b], the candidate each of them is."""
        self._path: Tensor
        """Product of the probabilities up to each branch [R, b]."""

    def choose(self, logits: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
        """Take proposals from logits; return the next branches' tokens and parents, [R, b] each.

        `logits` are [R, 1, Vd] at first and [R, b, Vd] then; parents are rows of theirs.
        """
        chance, index = logits.float().softmax(-1).topk(self.topk, dim=-1)
        tokens = kept[index].flatten(1)
        begin = sum(part.shape[1] for part in self.scores)
        if begin:
            scores = (self._path[:, :, None] * chance).flatten(1)
            self._path, best = scores.topk(self.topk, dim=-1)
        else:
            scores = self._path = chance[:, 0]
            best = torch.arange(self.topk, device=logits.device).expand(len(scores), -1)
        self.scores.append(scores)
        self.tokens.append(tokens)
        self.origins.append(best + begin)
        return tokens.gather(1, best), best // self.topk

    def tree(self, draft_tokens: int) -> tuple[Tensor, Tensor]:
        """Return the nodes' tokens [R, n - 1] and, with node 0, their parents [R, n]."""
        scores = torch.cat(self.scores, dim=1)
        selected = scores.topk(draft_tokens - 1, dim=-1).indices.sort(dim=-1).values
        tokens = torch.cat(self.tokens, dim=1).gather(1, selected)
        return tokens, self._parents(selected)

    def _parents(self, selected: Tensor) -> Tensor:
        """Candidates [R, n - 1] -> the node of each one's parent [R, n]."""
        topk = self.topk
        origins = torch.cat(self.origins, dim=1)
        branch = (selected - topk) // topk  # b candidates a branch; below 0 at the root
        origin = origins.gather(1, branch.clamp(min=0))
        same = selected[:, None, :] == origin[:, :, None]
        node = torch.where(branch < 0, 0, same.long().argmax(-1) + 1)
        lost = (branch >= 0) & ~same.any(-1)
        first = torch.full_like(selected[:, :1], -1)
        return torch.cat([first, node.masked_fill(lost, -1)], dim=1)
