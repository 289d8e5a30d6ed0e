"""What the drafter is fed in each forward mode, and whether its fusion layer runs."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from .record import Recorder


class ForwardWatch:
    """Hook around ``forward`` of a drafter class.

    Under CUDA graphs this is Python code of the capture alone: ``capturing`` says so, and the
    widths seen then hold for every replay.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._models: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._fc: tuple[int, int] | None = None
        self._seen: set[tuple[Any, ...]] = set()

    def forward(
        self, original: Callable[..., Any], model: torch.nn.Module, *args: Any, **kwargs: Any
    ) -> Any:
        """Fact ``forward``: widths are the last dimensions of the tensors, per token."""
        if torch.compiler.is_compiling():
            return original(model, *args, **kwargs)
        if model not in self._models:
            with self._recorder.guard("forward"):
                self._models.add(model)
                fusion_layer = getattr(model.model, "fc", None)
                if isinstance(fusion_layer, torch.nn.Module):
                    fusion_layer.register_forward_hook(self._fusion_layer_ran)
        batch = width = None
        with self._recorder.guard("forward"):
            batch = _batch(args, kwargs)
            width = _hidden_width(batch)
        self._fc = None
        result = original(model, *args, **kwargs)
        if batch is not None:
            with self._recorder.guard("forward"):
                self._report(model, batch.forward_mode, width)
        return result

    def _fusion_layer_ran(self, _layer: torch.nn.Module, inputs: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        with self._recorder.guard("fc"):
            first = output[0] if isinstance(output, tuple) else output
            self._fc = (inputs[0].shape[-1], first.shape[-1])

    def _report(self, model: torch.nn.Module, mode: Any, width: int | None) -> None:
        fc = self._fc
        cuda: Any = torch.cuda
        capturing = cuda.is_initialized() and cuda.is_current_stream_capturing()
        key = (type(model), int(mode), width, fc, capturing)
        if key in self._seen:
            return
        self._seen.add(key)
        inner: Any = model.model
        self._recorder.emit(
            "forward",
            **{"class": type(model).__name__},
            mode=mode.name,
            mode_value=int(mode),
            width=width,
            embed_width=inner.embed_tokens.weight.shape[-1],
            fc_ran=fc is not None,
            fc_in=fc[0] if fc else None,
            fc_out=fc[1] if fc else None,
            capturing=capturing,
        )


def _batch(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Find SGLang's ForwardBatch among the arguments of ``forward``."""
    values = (*args, *kwargs.values())
    return next((value for value in values if hasattr(value, "forward_mode")), None)


def _hidden_width(batch: Any) -> int | None:
    hidden = getattr(getattr(batch, "spec_info", None), "hidden_states", None)
    return None if hidden is None else int(hidden.shape[-1])
