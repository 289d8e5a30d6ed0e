"""What the drafter's loader did with every tensor of the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .dataflow import Dataflow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .record import Recorder

HOT_TOKEN_ID = "hot_token_id"


class LoadWatch:
    """Hooks around a drafter class's ``load_weights``, ``set_embed`` and ``set_embed_and_head``."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def load_weights(
        self,
        original: Callable[..., Any],
        model: torch.nn.Module,
        weights: Iterable[tuple[str, torch.Tensor]],
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Facts ``load`` and ``draft_vocab``.

        ``into`` names the parameters, or ``hot_token_id``, that a tensor's data reached; it is
        empty for a dropped tensor. ``unwritten`` parameters kept their initial values, ``partly``
        written ones kept some of them.
        """
        tensors: list[dict[str, Any]] = []
        flow: Dataflow | None = None
        with self._recorder.guard("load_weights"):
            flow = Dataflow(dict(model.named_parameters()), self._recorder)
        if flow is None:
            return original(model, weights, *args, **kwargs)

        def watched() -> Iterator[tuple[str, torch.Tensor]]:
            for name, tensor in weights:
                with self._recorder.guard("load_weights"):
                    flow.hold(name, tensor)
                    tensors.append(
                        {"name": name, "shape": list(tensor.shape), "dtype": _dtype(tensor)}
                    )
                yield name, tensor
            flow.release()

        with flow:
            result = original(model, watched(), *args, **kwargs)
        with self._recorder.guard("load_weights"):
            self._report(model, flow, tensors)
        return result

    def _report(
        self, model: torch.nn.Module, flow: Dataflow, tensors: list[dict[str, Any]]
    ) -> None:
        parameters = dict(model.named_parameters())
        flow.follow_replaced(parameters)
        into = {name: sorted(reached) for name, reached in flow.into.items()}
        hot_token_id = getattr(model, HOT_TOKEN_ID, None)
        if isinstance(hot_token_id, torch.Tensor):
            for name in flow.origins(hot_token_id):
                into.setdefault(name, []).append(HOT_TOKEN_ID)
        self._recorder.emit(
            "load",
            **{"class": type(model).__name__},
            tensors=[tensor | {"into": into.get(tensor["name"], [])} for tensor in tensors],
            parameters=[
                {"name": name, "shape": list(parameter.shape)}
                for name, parameter in parameters.items()
            ],
            unwritten=[name for name in parameters if not flow.written.get(name)],
            partly=[
                name
                for name, parameter in parameters.items()
                if 0 < flow.written.get(name, 0) < parameter.numel()
            ],
        )
        self._recorder.emit(
            "draft_vocab",
            draft_vocab_size=getattr(getattr(model, "config", None), "draft_vocab_size", None),
            hot_token_id=_id_statistics(hot_token_id),
        )

    def shared(self, method: str) -> Callable[..., Any]:
        """Fact ``shared``: the parameters that ``method`` replaced by the target's."""

        def hook(
            original: Callable[..., Any], model: torch.nn.Module, *args: Any, **kwargs: Any
        ) -> Any:
            before = _addresses(model)
            result = original(model, *args, **kwargs)
            with self._recorder.guard(method):
                after = _addresses(model)
                self._recorder.emit(
                    "shared",
                    **{"class": type(model).__name__},
                    parameters=[name for name in after if after[name] != before.get(name)],
                    method=method,
                )
            return result

        return hook


def _addresses(model: torch.nn.Module) -> dict[str, int]:
    return {
        name: parameter.data_ptr()
        for name, parameter in model.named_parameters(remove_duplicate=False)
    }


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _id_statistics(ids: Any) -> dict[str, int] | None:
    if not isinstance(ids, torch.Tensor) or not ids.numel():
        return None
    values = ids.tolist()
    return {
        "size": len(values),
        "min": min(values),
        "max": max(values),
        "distinct": len(set(values)),
    }
