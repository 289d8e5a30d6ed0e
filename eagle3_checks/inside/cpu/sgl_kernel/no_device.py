"""CUDA calls that SGLang makes without asking whether there is a device."""

from __future__ import annotations

from typing import Any

import torch


def ignore_synchronize() -> None:
    """Make ``torch.cuda.synchronize`` do nothing where there is no device to wait for.

    ``Eagle3DeepseekV2ForCausalLM.set_embed`` (SGLang 0.5.23) calls it on a CPU too, where it would
    end the server.
    """
    if not torch.cuda.is_available():
        torch.cuda.synchronize = _do_nothing


def _do_nothing(device: Any = None) -> None:
    """Stand in for ``torch.cuda.synchronize``."""
