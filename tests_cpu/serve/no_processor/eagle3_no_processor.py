"""A plugin of SGLang: multimodal targets get no processor, and serve text by its ids."""

from __future__ import annotations

from typing import Any

GET = "sglang.srt.managers.multimodal_processor.get_mm_processor"


def activate() -> None:
    """Have SGLang go without: Kimi-K2.5's processor is code of the checkpoint."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType  # noqa: PLC0415

    HookRegistry.register(GET, _none, HookType.REPLACE)


def _none(*_args: Any, **_kwargs: Any) -> None:
    """Return no processor."""
