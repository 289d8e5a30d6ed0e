"""Drafter checkpoints in the layout SGLang loads: `config.json` and safetensors files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from eagle3_checks.checkpoint.config import read_draft_config
from eagle3_checks.checkpoint.manifest import read_manifest
from eagle3_checks.reference.drafter import Drafter
from eagle3_checks.reference.drafter_config import DrafterConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
EMBEDDING, HEAD = "embed_tokens.weight", "lm_head.weight"
_PREFIXES = re.compile(r"^(model\.|draft_model\.)+")
_OTHER_NAMES = (
    (re.compile(r"^layers\.0\."), "midlayer."),
    (re.compile(r"^aux_norm_low\."), "fc_norm.0."),
    (re.compile(r"^aux_norm_mid\."), "fc_norm.1."),
    (re.compile(r"^aux_norm_high\."), "fc_norm.2."),
)
_UNREAD = re.compile(r"(^|\.)t2d$|rotary_emb\.inv_freq$|^layers\.[1-9]\d*\.input_layernorm\.")
"""Tensors that no SGLang version reads."""


class WeightsError(ValueError):
    """Weights that the reference cannot run; the message names the tensor."""


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


def load_drafter(
    folder: Path,
    embed_tokens: Tensor,
    *,
    head: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
) -> Drafter:
    """Read a drafter for evaluation, by the names that any SGLang version reads.

    `embed_tokens` [V, Ht] and `head` [V, Ht] are the target's; the head is needed where the drafter
    borrows it. Tensors that the config has no use for are dropped, as by SGLang. Raises
    NotComputedError where the config asks for what is not computed, and WeightsError where a tensor
    is missing or of another shape.
    """
    config = DrafterConfig.of(read_draft_config(folder))
    tensors = {_own_name(name): value for name, value in _tensors(folder)}
    own = tensors.pop(EMBEDDING, None)
    embedding = embed_tokens if config.shares_embedding else own
    if embedding is None:
        raise WeightsError(f"{EMBEDDING} is missing, and the target's is of another width")
    kept = _kept(tensors.pop("d2t", None), config)
    _place_head(tensors, config, embedding, head)
    with torch.device("meta"):
        drafter = Drafter(config, torch.empty(0), torch.empty(0, dtype=torch.long))
    wanted = drafter.state_dict()
    tensors = {name: value for name, value in tensors.items() if name in wanted}
    _fit(tensors, wanted)
    drafter.load_state_dict({n: t.to(dtype) for n, t in tensors.items()}, strict=False, assign=True)
    drafter.embed_tokens = embedding.detach().to(dtype)
    drafter.d2t = kept - torch.arange(len(kept))
    return drafter.to(device).eval().requires_grad_(requires_grad=False)


def _tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Yield what the checkpoint's headers list; WeightsError says what cannot be read."""
    manifest = read_manifest(folder)
    for fault in manifest.problems:
        raise WeightsError(f"{fault.file}: {fault.detail}; {fault.fix}")
    for file in sorted({info.file for info in manifest.tensors.values()}):
        with safe_open(folder / file, framework="pt") as stream:
            for name, info in manifest.tensors.items():
                if info.file == file and not _UNREAD.search(name):
                    yield name, stream.get_tensor(name)


def _own_name(name: str) -> str:
    """Return the name under which the reference holds a tensor."""
    name = _PREFIXES.sub("", name)
    for pattern, ours in _OTHER_NAMES:
        name = pattern.sub(ours, name)
    return name


def _kept(d2t: Tensor | None, config: DrafterConfig) -> Tensor:
    """Return the target id of each draft id; they are the same where there is no d2t."""
    if d2t is None:
        return torch.arange(config.head_rows)
    kept = d2t.long() + torch.arange(len(d2t))
    if len(kept) < config.head_rows:
        raise WeightsError(f"d2t has {len(kept)} entries for a head of {config.head_rows} rows")
    if kept.min() < 0 or kept.max() >= config.vocab_size:
        raise WeightsError(
            f"d2t maps to ids {int(kept.min())} to {int(kept.max())}; the vocabulary has "
            f"{config.vocab_size}: SGLang takes d2t as offsets, target id - draft id"
        )
    return kept


def _place_head(
    tensors: dict[str, Tensor], config: DrafterConfig, embedding: Tensor, head: Tensor | None
) -> None:
    """Put the target's head, or the embedding, where the drafter has none of its own."""
    if config.tied:
        tensors[HEAD] = embedding[: config.head_rows]
    elif config.borrowed:
        if head is None:
            raise WeightsError("the drafter borrows the target's head, which was not given")
        tensors[HEAD] = head


def _fit(tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Raise WeightsError where a tensor of the module is missing or has another shape."""
    missing = sorted(wanted.keys() - tensors.keys() - {"d2t"})
    if missing:
        raise WeightsError(f"{', '.join(missing)} missing: the drafter cannot be run without")
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            raise WeightsError(
                f"{name} is {list(tensor.shape)}; the config makes it {list(wanted[name].shape)}"
            )
