"""The plugin's entry: puts the watches on SGLang's model classes as these are imported."""

from __future__ import annotations

import functools
import importlib.machinery
import os
import platform
import sys
from importlib import metadata
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any

from .capture import CaptureWatch
from .drafts import WORKER, WORKERS, DraftWatch, wanted
from .forward import ForwardWatch
from .load import LoadWatch
from .record import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

PREFIX_VARIABLE = "EAGLE3_PROBE_FILE"
MODELS = "sglang.srt.models."
DRAFTERS = frozenset({"LlamaForCausalLMEagle3", "Eagle3DeepseekV2ForCausalLM"})
SET_LAYERS = "set_eagle3_layers_to_capture"


def activate() -> None:
    """Start the probe in this process, if ``EAGLE3_PROBE_FILE`` names the files to write."""
    prefix = os.environ.get(PREFIX_VARIABLE)
    if not prefix:
        return
    recorder = Recorder(prefix)
    recorder.emit(
        "hello",
        sglang=metadata.version("sglang"),
        python=platform.python_version(),
        argv0=sys.argv[0],
    )
    watches = Watches(recorder)
    sys.meta_path.insert(0, ModelImports(watches))
    for name, module in list(sys.modules.items()):
        if name.startswith(MODELS) or name == WORKERS:
            watches.install(module)


class Watches:
    """Wraps the methods of interest on the classes that a model module defines."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._load = LoadWatch(recorder)
        self._forward = ForwardWatch(recorder)
        self._capture = CaptureWatch(recorder)
        most = wanted()
        self._drafts = DraftWatch(recorder, most) if most else None

    def install(self, module: ModuleType) -> None:
        """Wrap what ``module`` defines; classes that it merely imports are another module's."""
        with self._recorder.guard(f"install {module.__name__}"):
            for value in list(vars(module).values()):
                if not isinstance(value, type) or value.__module__ != module.__name__:
                    continue
                if SET_LAYERS in vars(value):
                    around(value, SET_LAYERS, self._capture.set_layers)
                if value.__name__ in DRAFTERS:
                    around(value, "load_weights", self._load.load_weights)
                    around(value, "forward", self._forward.forward)
                    for method in ("set_embed", "set_embed_and_head"):
                        around(value, method, self._load.shared(method))
                if self._drafts is not None:
                    self._watch_drafts(self._drafts, value)

    @staticmethod
    def _watch_drafts(drafts: DraftWatch, value: type) -> None:
        if value.__name__ in DRAFTERS:
            around(value, "forward", drafts.forward)
        if value.__name__ == WORKER:
            around(value, "_draft_extend_for_prefill", drafts.prefilled)
            around(value, "_draft_extend_for_decode", drafts.extended)
            around(value, "draft", drafts.drafted)


class ModelImports(MetaPathFinder):
    """Installs the watches on a model module right after its import, whichever process imports it.

    SGLang's own hook registry would import the named modules at once, in the tokenizer and
    detokenizer processes too, which have no business with model code or the GPU.
    """

    def __init__(self, watches: Watches) -> None:
        self._watches = watches

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a model module the usual way, and have it watched once it is executed."""
        if not fullname.startswith(MODELS) and fullname != WORKERS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self._watches.install(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def around(owner: type, name: str, hook: Callable[..., Any]) -> None:
    """Replace method ``name`` of a class by ``hook(original, self, *args, **kwargs)``."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return hook(original, self, *args, **kwargs)

    setattr(owner, name, method)
