"""The trees that the drafter proposes, verify step by verify step: only where they are asked for.

``EAGLE3_PROBE_DRAFTS=N`` reports the first N of each process. It copies from the device at every
step, and so costs speed while it lasts.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from .record import Recorder

VARIABLE = "EAGLE3_PROBE_DRAFTS"
WORKER = "EagleDraftWorker"
TOP = 8
"""Likeliest draft ids that are reported with their logits."""
MOST_REQUESTS = 4096
"""Requests whose last logits are kept for the draft that follows."""

Row = dict[str, list[Any]]


def wanted() -> int:
    """Return how many drafted trees this process is to report."""
    text = os.environ.get(VARIABLE, "")
    return int(text) if text.isascii() and text.isdigit() else 0


class DraftWatch:
    """Hooks around the draft worker's three passes and around ``forward`` of a drafter class.

    Under CUDA graphs ``forward`` does not run, and trees are reported without logits.
    """

    def __init__(self, recorder: Recorder, most: int) -> None:
        self._recorder = recorder
        self._left = most
        self._logits: list[torch.Tensor] = []
        self._roots: dict[str, Row] = {}

    def forward(
        self, original: Callable[..., Any], model: torch.nn.Module, *args: Any, **kwargs: Any
    ) -> Any:
        """Keep the logits of a pass that a worker's hook has begun."""
        result = original(model, *args, **kwargs)
        if self._left > 0:
            with self._recorder.guard("draft logits"):
                self._logits.append(result.next_token_logits)
        return result

    def prefilled(
        self, original: Callable[..., Any], worker: Any, batch: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Keep the logits behind each prompt: the first drafts come from them."""
        self._logits = []
        result = original(worker, batch, *args, **kwargs)
        if self._left > 0 and self._logits:
            with self._recorder.guard("draft prefill"):
                self._keep(batch, _top(self._logits[-1]))
        return result

    def extended(
        self, original: Callable[..., Any], worker: Any, batch: Any, done: Any, **kwargs: Any
    ) -> Any:
        """Keep the logits behind each request's last accepted token."""
        self._logits = []
        result = original(worker, batch, done, **kwargs)
        if self._left > 0 and self._logits:
            with self._recorder.guard("draft extend"):
                logits = self._logits[-1]
                count = len(batch.reqs)
                if len(logits) != count:
                    width = len(logits) // count
                    rows = [i * width + n - 1 for i, n in enumerate(done.accept_lens.tolist())]
                    logits = logits[rows]
                self._keep(batch, _top(logits))
        return result

    def drafted(self, original: Callable[..., Any], worker: Any, batch: Any, **kwargs: Any) -> Any:
        """Fact ``draft``, one a request: ``tokens`` and ``parents`` of its tree, node by node.

        ``length`` counts the tokens verified before, the last of them at node 0. ``top`` has, for
        each step and each branch of it, the likeliest draft ids and their logits.
        """
        self._logits = []
        result = original(worker, batch, **kwargs)
        tree = result[0] if isinstance(result, tuple) else result
        if self._left > 0 and batch.reqs:
            with self._recorder.guard("draft"):
                self._report(batch, tree)
        return result

    def _keep(self, batch: Any, rows: list[Row]) -> None:
        if len(self._roots) > MOST_REQUESTS:
            self._roots.clear()
        self._roots.update(zip((req.rid for req in batch.reqs), rows, strict=True))

    def _report(self, batch: Any, tree: Any) -> None:
        count = len(batch.reqs)
        tokens = tree.draft_token.view(count, -1).tolist()
        links = zip(
            tree.retrieve_next_token.tolist(), tree.retrieve_next_sibling.tolist(), strict=True
        )
        steps = [_top(logits) for logits in self._logits]
        for number, (req, link) in enumerate(zip(batch.reqs, links, strict=True)):
            if self._left <= 0:
                return
            self._left -= 1
            root = self._roots.pop(req.rid, None)
            branches = [rows[number * len(rows) // count :][: len(rows) // count] for rows in steps]
            self._recorder.emit(
                "draft",
                rid=req.rid,
                length=int(batch.seq_lens[number]) + 1,
                tokens=tokens[number],
                parents=_parents(*link),
                top=[[root], *branches] if root and branches else [[root]] if root else [],
            )


def _top(logits: torch.Tensor) -> list[Row]:
    """Return of each row the likeliest draft ids and their logits."""
    best = logits.float().topk(min(TOP, logits.shape[-1]), dim=-1)
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [{"ids": ids, "logits": values} for ids, values in pairs]


def _parents(children: list[int], siblings: list[int]) -> list[int]:
    """Read each node's parent off the links to first child and next sibling; -1 where none."""
    parents = [-1] * len(children)
    for node, first in enumerate(children):
        child = first
        while child != -1:
            parents[child] = node
            child = siblings[child]
    return parents
