"""The plugin's entry: does the damage that ``EAGLE3_DAMAGE`` names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import drafter, target, verify
from .table import DRAFTER, TARGET, TITLES

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE = "EAGLE3_DAMAGE"
READY = "sglang.srt.model_executor.model_runner.ModelRunner.init_attention_backends"
"""Called for target and drafter once both are loaded and share what they share."""
SAMPLE = "sglang.srt.speculative.eagle_utils.eagle_sample"


def activate() -> None:
    """Register the damage with SGLang; SystemExit on a name that is not known."""
    name = os.environ.get(VARIABLE, "")
    if not name:
        return
    if name not in TITLES:
        # SGLang goes on after an Exception of a plugin, and a healthy server would prove nothing.
        raise SystemExit(f"{VARIABLE}={name}: no such damage; there are {', '.join(TITLES)}")
    from sglang.srt.plugins.hook_registry import (  # noqa: PLC0415 - only in a server
        HookRegistry,
        HookType,
    )

    if name in TARGET | DRAFTER:
        HookRegistry.register(READY, _once_loaded(name), HookType.AROUND)
    else:
        HookRegistry.register(SAMPLE, verify.around_sampling(name), HookType.AROUND)


def _once_loaded(name: str) -> Callable[..., Any]:
    def hook(original: Callable[..., Any], runner: Any, *args: Any, **kwargs: Any) -> Any:
        if runner.is_draft_worker and name in DRAFTER:
            drafter.damage(name, runner.model)
        result = original(runner, *args, **kwargs)
        if not runner.is_draft_worker and name in TARGET:
            target.damage(name, runner.model)
        return result

    return hook
