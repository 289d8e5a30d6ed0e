"""Tensors for planted defects, written without torch."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterable
from math import prod
from pathlib import Path
from typing import Any

from tests_cpu.conftest import Spec, draft_tensors

IDS = "eagle_aux_hidden_state_layer_ids"
HEAD, EMBEDDING = "lm_head.weight", "embed_tokens.weight"


def weight(*shape: int, dtype: str = "BF16") -> Spec:
    return dtype, shape, None


def offsets(*values: int) -> Spec:
    return "I64", (len(values),), struct.pack(f"<{len(values)}q", *values)


def mask(kept: Iterable[int], length: int = 128) -> Spec:
    return "BOOL", (length,), bytes(i in set(kept) for i in range(length))


def bfloat16(values: Iterable[float]) -> bytes:
    return b"".join(struct.pack("<f", value)[2:] for value in values)


def noise(*shape: int, scale: float = 0.02, seed: int = 0) -> Spec:
    """Return normally distributed values, another row for each seed."""
    source = random.Random(seed)  # noqa: S311 - no secret
    return "BF16", shape, bfloat16(source.gauss(0, scale) for _ in range(prod(shape)))


def learnt(count: int, spread: float = 0.15, fresh: int = 0) -> Spec:
    """Return a head of 512 columns whose rows differ in scale by a share of it, but for fresh ones.

    The healthy scale is 0.023; a fresh row has 0.02, up to chance.
    """
    source = random.Random(count + fresh)  # noqa: S311 - no secret
    scales = [0.02 if row < fresh else 0.023 * source.gauss(1, spread) for row in range(count)]
    if not spread:
        scales = [0.02] * count
    values = (source.gauss(0, scale) for scale in scales for _ in range(512))
    return "BF16", (count, 512), bfloat16(values)


def constant(value: float, *shape: int) -> Spec:
    return "BF16", shape, bfloat16([value] * prod(shape))


def rows(*parts: Spec) -> Spec:
    """Return tensors of one width on top of each other."""
    dtype, (_, width), _ = parts[0]
    data = b"".join(part[2] or b"" for part in parts)
    return dtype, (sum(part[1][0] for part in parts), width), data


def trained(**changes: Spec) -> dict[str, Spec]:
    """Return the healthy drafter with values as training leaves them: small, and norms near 1."""
    values: dict[str, Spec] = {}
    for seed, (name, spec) in enumerate(draft_tensors().items()):
        dtype, shape, data = spec
        if data is not None or dtype != "BF16":
            values[name] = spec
        else:
            values[name] = constant(1.1, *shape) if len(shape) == 1 else noise(*shape, seed=seed)
    return {**values, **{name.replace("__", "."): spec for name, spec in changes.items()}}


def writing(which: str, name: str, content: Any) -> Callable[[Path, Path], None]:
    """Return an edit that writes a file, as JSON unless it is text, beside a pair's others."""

    def edit(target: Path, drafter: Path) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        ((target if which == "target" else drafter) / name).write_text(text)

    return edit
