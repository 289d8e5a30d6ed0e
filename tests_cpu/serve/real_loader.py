"""Loads drafters with SGLang's real classes, in one process, and prints what the probe saw.

    python -m tests_cpu.serve.real_loader TARGET DRAFTER...

Before them it asks every target class which boundaries its setter wants captured: ``asked``.

Needs the environment of a server on the CPU engine: its kernels and the probe on PYTHONPATH. Sets
up SGLang's runtime as its scheduler process does (0.5.23), then builds and fills each drafter as
its draft worker does. One line of JSON for each: ``load``, ``shared``, or ``error``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import MagicMock

import torch
from sglang.srt.configs.device_config import DeviceConfig
from sglang.srt.configs.load_config import LoadConfig
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.distributed import bootstrap
from sglang.srt.model_loader.loader import get_model_loader
from sglang.srt.models.registry import ModelRegistry
from sglang.srt.runtime_context import SpawnRanks, publish
from sglang.srt.server_args import prepare_server_args
from sglang.srt.utils.network import get_free_port

SETTER = "set_eagle3_layers_to_capture"
DEPTH = 24
EXAMPLES = (None, [4, 9, 15], [1, 9, 15], [2, 9, 16], [4, 9, DEPTH - 1], [4, 9, DEPTH])
MODULES = ("sglang.srt.models.llama_eagle3", "sglang.srt.models.kimi_k25_eagle3")


# The probe is found on PYTHONPATH, as in a server.
hooks = importlib.import_module("eagle3_probe.hooks")
LoadWatch: Any = importlib.import_module("eagle3_probe.load").LoadWatch


class Facts:
    """In the place of the probe's recorder: keeps the facts, and lets its faults through."""

    def __init__(self) -> None:
        self.facts: dict[str, dict[str, Any]] = {}

    def emit(self, fact: str, **fields: Any) -> None:
        self.facts[fact] = fields

    @contextlib.contextmanager
    def guard(self, _where: str) -> Iterator[None]:
        yield


class Loader:
    """Builds drafters beside a target that is only named."""

    def __init__(self, target: str, drafter: str, dtype: str = "float32") -> None:
        self._arguments = prepare_server_args(
            [
                *("--model-path", target, "--speculative-algorithm", "EAGLE3"),
                *("--speculative-draft-model-path", drafter, "--device", "cpu"),
                *("--dtype", dtype, "--prefill-attention-backend", "intel_amx"),
                *("--decode-attention-backend", "intel_amx", "--max-total-tokens", "4096"),
            ]
        )
        publish(self._arguments, role="scheduler", ranks=SpawnRanks(world_rank=0, gpu_id=0))
        bootstrap.init_parallel_runtime(
            server_args=self._arguments, device="cpu", dist_port=get_free_port()
        )
        bootstrap.init_layer_runtime(model_config=self._config(target))
        self._watch = LoadWatch(Facts())
        for module in map(importlib.import_module, MODULES):
            for owner in (getattr(module, name, None) for name in hooks.DRAFTERS):
                if owner is not None and owner.__module__ == module.__name__:
                    hooks.around(owner, "load_weights", self._loaded)
                    for method in ("set_embed", "set_embed_and_head"):
                        hooks.around(owner, method, self._shared(method))

    def load(self, drafter: str) -> dict[str, Any]:
        """Build, fill and wire one drafter, as the draft worker does."""
        seen = Facts()
        self._watch = LoadWatch(seen)
        model = self.build(drafter)
        rows, width = model.config.vocab_size, model.config.hidden_size
        embed = torch.nn.Parameter(torch.zeros(rows, width), requires_grad=False)
        if model.load_lm_head_from_target:
            head = torch.nn.Parameter(torch.zeros(rows, width), requires_grad=False)
            model.set_embed_and_head(embed, head)
        else:
            model.set_embed(embed)
        return seen.facts

    def build(self, drafter: str) -> Any:
        """Build and fill one drafter."""
        config = self._config(drafter, is_draft_model=True)
        loader = get_model_loader(LoadConfig(), config)
        return loader.load_model(model_config=config, device_config=DeviceConfig("cpu"))

    def _config(self, path: str, **more: Any) -> Any:
        return ModelConfig.from_server_args(self._arguments, model_path=path, **more)

    def _loaded(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        return self._watch.load_weights(original, model, *args, **kwargs)

    def _shared(self, method: str) -> Callable[..., Any]:
        def hook(original: Callable[..., Any], model: Any, *args: Any) -> Any:
            return self._watch.shared(method)(original, model, *args)

        return hook


def asked() -> dict[str, Any]:
    """Call the setter of every class that SGLang registers, on a stand-in for its model.

    An answer is null for a class without one, and left out for one that hands its ids on.
    """
    answers: dict[str, Any] = {}
    for name, owner in ModelRegistry.models.items():
        setter = getattr(owner, SETTER, None)
        answers[name] = None if setter is None else [_wanted(setter, ids) for ids in EXAMPLES]
    return {name: a for name, a in answers.items() if a is None or None not in a}


def _wanted(setter: Callable[..., None], ids: list[int] | None) -> list[int] | None:
    model = MagicMock()
    for config in (model.config, model.config.text_config):
        config.num_hidden_layers = DEPTH
    layers = [MagicMock() for _ in range(2 * DEPTH)]
    model.model.layers = MagicMock()
    model.model.layers.__len__.return_value = DEPTH
    model.model.layers.__getitem__.side_effect = layers.__getitem__
    setter(model, ids)
    for part in (model.model, model.language_model):
        told = getattr(part, SETTER).call_args
        found = told.args[0] if told else part.layers_to_capture
        if isinstance(found, list) and found is not ids:
            return found
    return None


def main() -> None:
    target, *drafters = sys.argv[1:]
    loader = Loader(target, drafters[0])
    targets = {"asked": asked(), "depth": DEPTH, "examples": EXAMPLES}
    print(json.dumps(targets), flush=True)  # noqa: T201
    for drafter in drafters:
        try:
            seen = loader.load(drafter)
        except Exception as error:  # noqa: BLE001 - whatever stops SGLang is an answer
            seen = {"error": {"type": type(error).__name__, "text": str(error)}}
        print(json.dumps({"drafter": drafter, **seen}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
