"""What a drafter needs of its target beside its states: embedding and head, and nothing else read.

A target of a trillion parameters is not loaded for two of its tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from safetensors import safe_open

from eagle3_checks.checkpoint.manifest import read_manifest
from eagle3_checks.reference.checkpoint import WeightsError

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from eagle3_checks.facts import Manifest

EMBEDDINGS = ("embed_tokens.weight", "embedding.weight", "wte.weight")
HEADS = ("lm_head.weight", "output_layer.weight")


def borrowed_weights(target: Path) -> tuple[Tensor, Tensor]:
    """Return a target's embedding and head [V, Ht]; they are the same where it has one.

    Raises WeightsError where there is no embedding.
    """
    manifest = read_manifest(target)
    embedding = _tensor(target, manifest, EMBEDDINGS)
    if embedding is None:
        names = " or ".join(EMBEDDINGS)
        raise WeightsError(f"{target}: no tensor is called {names}, so the drafter has no input")
    head = _tensor(target, manifest, HEADS)
    return embedding, embedding if head is None else head


def read_rows(path: Path, rows: int, width: int) -> Tensor:
    """Return the float32 numbers of a file as [rows, width]; it is read as it is used."""
    return torch.from_file(str(path), shared=False, size=rows * width).view(rows, width)


def _tensor(folder: Path, manifest: Manifest, endings: tuple[str, ...]) -> Tensor | None:
    """Return the tensor whose name ends so, the shortest where several do."""
    for ending in endings:
        named = sorted((n for n in manifest.tensors if n.endswith(ending)), key=len)
        if named:
            with safe_open(folder / manifest.tensors[named[0]].file, framework="pt") as stream:
                found: Tensor = stream.get_tensor(named[0])
            return found
    return None
