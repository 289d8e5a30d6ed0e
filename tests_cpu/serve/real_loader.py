"""Loads drafters with SGLang's real classes, in one process, and prints what the probe saw.

    python -m tests_cpu.serve.real_loader TARGET DRAFTER...

Needs the environment of a server on the CPU engine: its kernels and the probe on PYTHONPATH. Sets
up SGLang's runtime as its scheduler process does (0.5.23), then builds and fills each drafter as
its draft worker does. One line of JSON for each: ``load``, ``shared``, or ``error``.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from eagle3_probe.hooks import DRAFTERS, around
from eagle3_probe.load import LoadWatch
from eagle3_probe.record import Recorder
from sglang.srt.configs.device_config import DeviceConfig
from sglang.srt.configs.load_config import LoadConfig
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.distributed import bootstrap
from sglang.srt.model_loader.loader import get_model_loader
from sglang.srt.runtime_context import SpawnRanks, publish
from sglang.srt.server_args import prepare_server_args
from sglang.srt.utils.network import get_free_port

MODULES = ("sglang.srt.models.llama_eagle3", "sglang.srt.models.kimi_k25_eagle3")


class Facts(Recorder):
    """Keeps the probe's facts instead of writing them."""

    def __init__(self) -> None:
        super().__init__("unused")
        self.facts: dict[str, dict[str, Any]] = {}

    def emit(self, fact: str, **fields: Any) -> None:
        self.facts[fact] = fields


class Loader:
    """Builds drafters beside a target that is only named."""

    def __init__(self, target: str, drafter: str) -> None:
        self._arguments = prepare_server_args(
            [
                *("--model-path", target, "--speculative-algorithm", "EAGLE3"),
                *("--speculative-draft-model-path", drafter, "--device", "cpu"),
                *("--dtype", "float32", "--prefill-attention-backend", "intel_amx"),
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
            for owner in (getattr(module, name, None) for name in DRAFTERS):
                if owner is not None and owner.__module__ == module.__name__:
                    around(owner, "load_weights", self._loaded)
                    for method in ("set_embed", "set_embed_and_head"):
                        around(owner, method, self._shared(method))

    def load(self, drafter: str) -> dict[str, Any]:
        """Build, fill and wire one drafter, as the draft worker does."""
        seen = Facts()
        self._watch = LoadWatch(seen)
        config = self._config(drafter, is_draft_model=True)
        loader = get_model_loader(LoadConfig(), config)
        model = loader.load_model(model_config=config, device_config=DeviceConfig("cpu"))
        rows, width = model.config.vocab_size, model.config.hidden_size
        embed = torch.nn.Parameter(torch.zeros(rows, width), requires_grad=False)
        if model.load_lm_head_from_target:
            head = torch.nn.Parameter(torch.zeros(rows, width), requires_grad=False)
            model.set_embed_and_head(embed, head)
        else:
            model.set_embed(embed)
        return seen.facts

    def _config(self, path: str, **more: Any) -> Any:
        return ModelConfig.from_server_args(self._arguments, model_path=path, **more)

    def _loaded(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        return self._watch.load_weights(original, model, *args, **kwargs)

    def _shared(self, method: str) -> Callable[..., Any]:
        def hook(original: Callable[..., Any], model: Any, *args: Any) -> Any:
            return self._watch.shared(method)(original, model, *args)

        return hook


def main() -> None:
    target, *drafters = sys.argv[1:]
    loader = Loader(target, drafters[0])
    for drafter in drafters:
        try:
            seen = loader.load(drafter)
        except Exception as error:  # noqa: BLE001 - whatever stops SGLang is an answer
            seen = {"error": {"type": type(error).__name__, "text": str(error)}}
        print(json.dumps({"drafter": drafter, **seen}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
