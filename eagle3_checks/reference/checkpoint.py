"""Drafter checkpoints in the layout SGLang loads: `config.json` and `model.safetensors`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save_file

from eagle3_checks.reference.drafter import Drafter
from eagle3_checks.reference.drafter_config import DrafterConfig

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

WEIGHTS = "model.safetensors"
CONFIG = "config.json"


def save_drafter(drafter: Drafter, folder: Path, dtype: torch.dtype = torch.float16) -> None:
    """Write weights in `dtype`, d2t as int64 offsets, t2d as the bool mask of the kept ids.

    The embedding is not written: SGLang puts the target's there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: value.detach().to(dtype if value.is_floating_point() else value.dtype).contiguous()
        for name, value in drafter.state_dict().items()
    }
    t2d = torch.zeros(drafter.config.vocab_size, dtype=torch.bool)
    t2d[drafter.kept] = True
    save_file({**tensors, "t2d": t2d}, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / CONFIG).write_text(json.dumps(drafter.config.to_json(dtype), indent=2) + "\n")


def load_drafter(folder: Path, embed_tokens: Tensor) -> Drafter:
    """Read a drafter in float32, for evaluation; `embed_tokens` [V, H] is the target's.

    Raises RuntimeError where a tensor is missing, unknown or of another shape; SGLang is silent.
    """
    config = DrafterConfig.from_json(json.loads((folder / CONFIG).read_text()))
    tensors = load_file(folder / WEIGHTS)
    kept = tensors["d2t"] + torch.arange(len(tensors["d2t"]))
    drafter = Drafter(config, embed_tokens, kept)
    drafter.load_state_dict({name: value for name, value in tensors.items() if name != "t2d"})
    return drafter.eval().requires_grad_(requires_grad=False)
