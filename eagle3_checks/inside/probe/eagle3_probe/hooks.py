"""The plugin's entry: puts the watches on SGLang's model classes as these are imported."""

from __future__ import annotations

import faulthandler
import functools
import importlib.machinery
import os
import platform
import signal
import sys
from importlib import metadata
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any

from .capture import CaptureWatch
from .drafts import WORKER, DraftWatch, wanted
from .forward import ForwardWatch
from .load import LoadWatch
from .prefill import PrefillWatch
from .record import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

PREFIX_VARIABLE = "EAGLE3_PROBE_FILE"
MODELS = "sglang.srt.models."
DRAFTERS = frozenset({"LlamaForCausalLMEagle3", "Eagle3DeepseekV2ForCausalLM"})
SET_LAYERS = "set_eagle3_layers_to_capture"
WORKERS = "sglang.srt.speculative.eagle_worker"
PREFILL = ("_draft_extend_for_prefill", "forward_draft_extend")
"""The draft worker's step after the target's prefill, by its names from release to release."""


def activate() -> None:
    """Start the probe in this process, if ``EAGLE3_PROBE_FILE`` names the files to write."""
    prefix = os.environ.get(PREFIX_VARIABLE)
    if not prefix:
        return
    # Asked for when the server is stuck; SGLang itself uses SIGUSR1 nowhere.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
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
        if name.startswith((MODELS, WORKERS)):
            watches.install(module)


class Watches:
    """Wraps the methods of interest on the classes that a model module defines."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._load = LoadWatch(recorder)
        self._forward = ForwardWatch(recorder)
        self._capture = CaptureWatch(recorder)
        self._prefill = PrefillWatch(recorder)
        most = wanted()
        self._drafts = DraftWatch(recorder, most) if most else None

    def install(self, module: ModuleType) -> None:
        """Wrap what ``module`` defines; classes that it merely imports are another module's."""
        with self._recorder.guard(f"install {module.__name__}"):
            for value in list(vars(module).values()):
                if not isinstance(value, type) or value.__module__ != module.__name__:
                    continue
                if module.__name__.startswith(WORKERS):
                    self._watch_worker(value)
                    continue
                if SET_LAYERS in vars(value):
                    around(value, SET_LAYERS, self._capture.set_layers)
                if value.__name__ in DRAFTERS:
                    around(value, "load_weights", self._load.load_weights)
                    around(value, "forward", self._forward.forward)
                    for method in ("set_embed", "set_embed_and_head"):
                        around(value, method, self._load.shared(method))
                    if self._drafts is not None:
                        around(value, "forward", self._drafts.forward)

    def _watch_worker(self, worker: type) -> None:
        for method in PREFILL:
            if method in vars(worker):
                around(worker, method, self._prefill.prefill)
                if "draft" in vars(worker):
                    around(worker, "draft", self._prefill.draft)
        if self._drafts is not None and worker.__name__ == WORKER:
            around(worker, "_draft_extend_for_prefill", self._drafts.prefilled)
            around(worker, "_draft_extend_for_decode", self._drafts.extended)
            around(worker, "draft", self._drafts.drafted)


class ModelImports(MetaPathFinder):
    """Installs the watches on a watched module right after its import, whichever process does it.

    SGLang's own hook registry would import the named modules at once, in the tokenizer and
    detokenizer processes too, which have no business with model code or the GPU.
    """

    def __init__(self, watches: Watches) -> None:
        self._watches = watches

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find such a module the usual way, and have it watched once it is executed."""
        if not fullname.startswith((MODELS, WORKERS)):
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
