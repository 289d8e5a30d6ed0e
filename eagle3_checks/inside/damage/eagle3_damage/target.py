"""Damages to the aux states that a target hands on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    States = list[torch.Tensor]

CAPTURED = "layers_to_capture"


def damage(name: str, model: torch.nn.Module) -> None:
    """Damage the aux states of a loaded target, which captures from now on."""
    inner = next(m for m in model.modules() if getattr(m, CAPTURED, None))
    if name == "shifted-layers":
        _shift(inner)
    elif name == "swapped-states":
        _change(inner, lambda states: states[::-1])
    elif name == "one-state":
        _change(inner, lambda states: states[:1])
    else:
        _incomplete(inner, keep_residual=name == "partial-sums")


def _shift(inner: Any) -> None:
    """Capture one layer later, while `layers_to_capture` goes on saying what was asked for."""
    asked = list(getattr(inner, CAPTURED))

    def before(*_: Any) -> None:
        setattr(inner, CAPTURED, [layer + 1 for layer in asked])

    def after(*_: Any) -> None:
        setattr(inner, CAPTURED, asked)

    inner.register_forward_pre_hook(before)
    inner.register_forward_hook(after, always_call=True)


def _change(inner: torch.nn.Module, change: Callable[[States], States]) -> None:
    """Put other aux states into the target's output: a list, or one packed tensor."""

    def after(module: Any, _inputs: Any, output: Any) -> Any:
        if not isinstance(output, tuple):
            return output
        hidden, states = output
        if isinstance(states, torch.Tensor):
            count = len(getattr(module, CAPTURED))
            return hidden, torch.cat(change(list(states.chunk(count, dim=-1))), dim=-1)
        return hidden, change(list(states))

    inner.register_forward_hook(after)


def _incomplete(inner: Any, *, keep_residual: bool) -> None:
    """Hand on the last layer's output alone, or the residual and half of the terms of that sum."""
    outputs: dict[int, torch.Tensor] = {}
    halves: dict[int, torch.Tensor] = {}
    captured = sorted(set(getattr(inner, CAPTURED)))

    def watch(layer: int) -> None:
        mlp = inner.layers[layer - 1].mlp

        def output(_module: Any, _inputs: Any, result: torch.Tensor) -> None:
            outputs[layer] = result.clone()

        def product(module: Any, inputs: Any, _result: Any) -> None:
            half = inputs[0].shape[-1] // 2
            halves[layer] = inputs[0][..., :half] @ module.weight[:, :half].T

        mlp.register_forward_hook(output)
        if hasattr(mlp, "down_proj"):
            mlp.down_proj.register_forward_hook(product)

    for layer in captured:
        watch(layer)

    def change(states: States) -> States:
        if not keep_residual:
            return [outputs[layer] for layer in captured]
        return [
            state - outputs[layer] + halves.get(layer, outputs[layer] / 2)
            for layer, state in zip(captured, states, strict=True)
        ]

    _change(inner, change)
