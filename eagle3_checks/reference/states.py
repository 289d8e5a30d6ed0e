"""The target's true hidden states, by Hugging Face's own class, for targets that fit."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from eagle3_checks.facts import StateDigest, TrueStates
from eagle3_checks.reference.digest import digest

GIB = 1 << 30
TEXT_MODELS = {"kimi_k2": "deepseek_v3"}
"""Model types that transformers has no class for, and the type whose class computes the same."""
WRAPPED = "language_model."
"""What the names of a wrapped text model's tensors begin with."""


class NoReferenceError(RuntimeError):
    """No true states can be computed; the message says why."""


def true_states(folder: Path, prompts: Iterable[tuple[int, ...]], limit_gib: float) -> TrueStates:
    """Run the target in float32 over prompts, each by itself.

    Boundary i is what enters layer i. Raises NoReferenceError where the weights are not here, are
    larger than `limit_gib`, or are of a class that transformers does not have.
    """
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    if not size:
        raise NoReferenceError(f"no safetensors weights of the target in {folder}")
    if size > limit_gib * GIB:
        raise NoReferenceError(
            f"the target's weights are {size / GIB:.1f} GiB; true states are computed up to "
            f"{limit_gib:g} (wiring.reference_gib)"
        )
    model = load_text_model(folder)
    states: dict[tuple[int, ...], Mapping[int, StateDigest]] = {}
    outputs: dict[tuple[int, ...], Mapping[int, StateDigest]] = {}
    for prompt in prompts:
        entering, added = _watched(model, prompt)
        states[prompt] = {layer: digest(value) for layer, value in entering.items()}
        outputs[prompt] = {layer: digest(value) for layer, value in added.items()}
    source = f"transformers {transformers.__version__}, {type(model).__name__}"
    return TrueStates(source=source, states=states, outputs=outputs)


def load_text_model(folder: Path) -> Any:
    """Load the text model of a target in float32, without any code of the checkpoint's.

    Raises NoReferenceError where transformers has no class for it.
    """
    raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    text = raw.get("text_config") if isinstance(raw.get("text_config"), dict) else raw
    kind = TEXT_MODELS.get(str(text.get("model_type")), str(text.get("model_type")))
    with _quiet():
        try:
            settings = {k: v for k, v in text.items() if k not in ("model_type", "auto_map")}
            config = transformers.AutoConfig.for_model(kind, **settings)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                key_mapping={f"^{WRAPPED}": ""},
                trust_remote_code=False,
            )
        except (ValueError, KeyError, OSError, RuntimeError, TypeError, AttributeError) as error:
            reason = str(error).partition("\n")[0][:200]
            raise NoReferenceError(f"transformers cannot load the target: {reason}") from error
    return model.eval().requires_grad_(requires_grad=False)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the loader's bars and notes out of the gate's output."""
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers.logging.set_verbosity(level)
        transformers.logging.enable_progress_bar()


@torch.no_grad()
def _watched(
    model: Any, prompt: tuple[int, ...]
) -> tuple[dict[int, torch.Tensor], dict[int, torch.Tensor]]:
    """Return what enters each layer and leaves the last, and what each feed-forward part adds."""
    layers = _decoder_layers(model)
    entering: dict[int, torch.Tensor] = {}
    added: dict[int, torch.Tensor] = {}

    def enters(layer: int) -> Any:
        def hook(_module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
            entering[layer] = _first(inputs or named["hidden_states"])

        return hook

    def leaves(place: dict[int, torch.Tensor], layer: int) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            place[layer] = _first(output)

        return hook

    with contextlib.ExitStack() as hooks:
        for number, layer in enumerate(layers):
            hooks.enter_context(layer.register_forward_pre_hook(enters(number), with_kwargs=True))
            feed_forward = getattr(layer, "mlp", None)
            if isinstance(feed_forward, nn.Module):
                hooks.enter_context(feed_forward.register_forward_hook(leaves(added, number + 1)))
        hooks.enter_context(layers[-1].register_forward_hook(leaves(entering, len(layers))))
        model(input_ids=torch.tensor([prompt]), use_cache=False)
    return entering, added


def _first(value: Any) -> torch.Tensor:
    """Return the hidden states [tokens, width] of a layer's arguments or output."""
    tensor: torch.Tensor = value[0] if isinstance(value, tuple) else value
    return tensor.reshape(-1, tensor.shape[-1])


def _decoder_layers(model: Any) -> list[nn.Module]:
    depth = model.config.get_text_config().num_hidden_layers
    lists = (m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == depth)
    found = next(lists, None)
    if found is None:
        raise NoReferenceError(f"{type(model).__name__} has no list of {depth} layers")
    return list(found)
