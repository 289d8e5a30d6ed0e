"""What the draft worker is handed and what it hands on: values, outside of CUDA graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .digest import TOKENS, digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from .record import Recorder

PROMPTS = 3
"""Prompts whose aux states are written down."""
SHORTEST = 2
"""Tokens of such a prompt: SGLang checks its health by prompts of one."""
ROWS = 64
"""Rows of an embedding or head that are compared."""
CALLS = 64
"""Calls of the drafter whose tokens are looked at; told at each power of two."""
EXAMPLES = 4
SIDE = 4
"""Rows and columns of a matrix that are written down."""
MATRIX = 2


class PrefillWatch:
    """Hooks around the draft worker's own steps, which stay Python where models are graphs."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._prompts = 0
        self._calls = self._tokens = self._outside = 0
        self._examples: list[int] = []
        self._allowed: frozenset[int] | range | None = None
        self._heads = False

    def prefill(
        self,
        original: Callable[..., Any],
        worker: Any,
        batch: Any,
        hidden: Any,
        *args: Any,
        **kw: Any,
    ) -> Any:
        """Facts ``states``, ``heads`` and ``corners``.

        ``states`` are those of the first prompts that begin at their beginning, ``corners`` the
        first values of each of the drafter's matrices.
        """
        if self._prompts < PROMPTS and not batch.forward_mode.is_idle():
            with self._recorder.guard("states"):
                self._states(worker, batch, hidden)
        if not self._heads:
            self._heads = True
            with self._recorder.guard("heads"):
                self._compare_heads(worker)
            with self._recorder.guard("corners"):
                self._recorder.emit("corners", parameters=_corners(_drafter(worker)))
        return original(worker, batch, hidden, *args, **kw)

    def draft(self, original: Callable[..., Any], worker: Any, *args: Any, **kwargs: Any) -> Any:
        """Fact ``drafted``: how many drafts lie outside of the ids that d2t maps to."""
        result = original(worker, *args, **kwargs)
        if self._calls < CALLS:
            with self._recorder.guard("drafted"):
                self._drafted(worker, result)
        return result

    def _states(self, worker: Any, batch: Any, hidden: torch.Tensor) -> None:
        width = int(_target(worker).model_config.hidden_size)
        begin = 0
        for length, prefix in zip(batch.extend_lens, batch.prefix_lens, strict=True):
            rows, begin = slice(begin, begin + min(length, TOKENS)), begin + length
            if prefix or length < SHORTEST or self._prompts >= PROMPTS:
                continue
            self._prompts += 1
            parts = torch.split(hidden[rows], width, dim=-1)
            self._recorder.emit(
                "states",
                tokens=batch.input_ids[rows].tolist(),
                width=int(hidden.shape[-1]),
                hidden_size=width,
                dtype=str(hidden.dtype).removeprefix("torch."),
                states=[digest(part) for part in parts if part.shape[-1] == width],
            )

    def _compare_heads(self, worker: Any) -> None:
        target, drafter = _target(worker).model, _drafter(worker)
        embedding, head = target.get_embed_and_head()
        self._recorder.emit(
            "heads",
            embedding=_compare(drafter.model.embed_tokens.weight, embedding),
            head=_compare(drafter.lm_head.weight, head),
        )

    def _drafted(self, worker: Any, result: Any) -> None:
        verify = result[0] if isinstance(result, tuple) else result
        tree = getattr(verify, "draft_token", None)
        number = getattr(verify, "draft_token_num", 0)
        if not isinstance(tree, torch.Tensor) or not tree.numel() or not number:
            return
        if self._allowed is None:
            self._allowed = _allowed(worker)
        # The first of each tree is the token that is already answered.
        drafts: list[int] = tree.reshape(-1, number)[:, 1:].flatten().tolist()
        outside = [token for token in drafts if token not in self._allowed]
        self._calls += 1
        self._tokens += len(drafts)
        self._outside += len(outside)
        self._examples = [*self._examples, *outside][:EXAMPLES]
        if self._calls & (self._calls - 1) == 0:
            self._recorder.emit(
                "drafted",
                calls=self._calls,
                tokens=self._tokens,
                outside=self._outside,
                examples=self._examples,
                allowed=len(self._allowed),
            )


def _allowed(worker: Any) -> frozenset[int] | range:
    """Return the ids that may be drafted: those d2t maps to and the target knows, or all."""
    known = range(int(_target(worker).model_config.vocab_size))
    ids = getattr(_drafter(worker), "hot_token_id", None)
    if not isinstance(ids, torch.Tensor):
        return known
    return frozenset(token for token in ids.tolist() if token in known)


def _target(worker: Any) -> Any:
    """Return the target's model runner."""
    return worker.target_worker.model_runner


def _drafter(worker: Any) -> Any:
    """Return the drafter's module."""
    runner = getattr(worker, "draft_runner", None) or worker.draft_model_runner
    return runner.model


def _corners(model: torch.nn.Module) -> dict[str, list[list[float]]]:
    plain = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    return {
        name: value.detach()[:SIDE, :SIDE].double().tolist()
        for name, value in model.named_parameters()
        if value.dim() == MATRIX and value.dtype in plain
    }


def _compare(own: torch.Tensor, other: torch.Tensor | None) -> str:
    """Say whether two matrices are the ``same`` memory, ``equal`` in some rows, or ``other``."""
    if other is None:
        return "unknown"
    if own.shape != other.shape:
        return "size"
    if own.data_ptr() == other.data_ptr():
        return "same"
    rows = torch.linspace(0, own.shape[0] - 1, ROWS).long().to(own.device)
    return "equal" if torch.equal(own[rows], other[rows].to(own)) else "other"
