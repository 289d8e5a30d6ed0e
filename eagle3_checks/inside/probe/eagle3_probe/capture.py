"""Which layers of the target hand their hidden states to the drafter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from .record import Recorder


class CaptureWatch:
    """Hook around ``set_eagle3_layers_to_capture`` of any target class.

    Where SGLang never calls it (an EAGLE-3 drafter served as ``EAGLE``), there is no fact.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._depth = 0

    def set_layers(
        self, original: Callable[..., Any], model: torch.nn.Module, *args: Any, **kwargs: Any
    ) -> Any:
        """Fact ``capture``: ``layers`` as SGLang keeps them, None where it keeps them elsewhere.

        A class that hands on to the language model inside it is reported once, as itself.
        """
        self._depth += 1
        try:
            result = original(model, *args, **kwargs)
        finally:
            self._depth -= 1
        if self._depth == 0:
            with self._recorder.guard("capture"):
                requested = next(iter((*args, *kwargs.values())), None)
                self._recorder.emit(
                    "capture",
                    **{"class": type(model).__name__},
                    layers=_layers_to_capture(model),
                    requested=None if requested is None else [int(layer) for layer in requested],
                )
        return result


def _layers_to_capture(model: torch.nn.Module) -> list[int] | None:
    values: list[Any] = [getattr(module, "layers_to_capture", None) for module in model.modules()]
    kept = [
        [int(layer) for layer in value] for value in values if isinstance(value, list | tuple | set)
    ]
    return next((layers for layers in kept if layers), kept[0] if kept else None)
