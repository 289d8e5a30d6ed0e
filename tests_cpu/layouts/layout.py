"""Header-only stand-ins for published drafters: fixtures/layouts, written as sparse files."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from tests_cpu.conftest import SIZES as FIXTURES

SIZES = {**FIXTURES, "F16": 2}
FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "layouts"


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """One published drafter: names, shapes, types and config, without weights."""

    name: str
    id: str
    trainer: str
    target: Mapping[str, Any]
    healthy: bool
    sources: tuple[str, ...]
    config: Mapping[str, Any]
    metadata: Mapping[str, str]
    tensors: Mapping[str, tuple[str, tuple[int, ...]]]
    expected: Mapping[str, Mapping[str, str]]
    """SGLang version to rule to the source of what it finds; marked `error:` or `warning:`."""
    mebibytes: float | None

    @property
    def size(self) -> int:
        """Bytes that the tensors take."""
        return sum(SIZES[dtype] * prod(shape) for dtype, shape in self.tensors.values())


@cache
def layouts() -> tuple[Layout, ...]:
    """Read all of them."""
    return tuple(_layout(path) for path in sorted((FOLDER / "drafters").glob("*.json")))


def _layout(path: Path) -> Layout:
    read = json.loads(path.read_text())
    return Layout(
        name=path.stem,
        id=read["id"],
        trainer=read["trainer"],
        target=json.loads((FOLDER / "targets" / f"{read['target']}.json").read_text()),
        healthy=read["healthy"],
        sources=tuple(read["sources"]),
        config=read["config"],
        metadata=read.get("metadata", {}),
        tensors={name: _spec(text) for name, text in read["tensors"].items()},
        expected=read["expected"],
        mebibytes=read.get("mib"),
    )


def _spec(text: str) -> tuple[str, tuple[int, ...]]:
    dtype, _, shape = text.partition(" ")
    return dtype, tuple(json.loads(shape))


def write(layout: Layout, folder: Path) -> tuple[Path, Path]:
    """Write target and drafter; the weights are a hole in the file, the vocabulary map is made up.

    Returns the two folders.
    """
    homes = folder / "target", folder / "drafter"
    for home, config in zip(homes, (layout.target["config"], layout.config), strict=True):
        home.mkdir(parents=True)
        (home / "config.json").write_text(json.dumps(dict(config)))
    header: dict[str, Any] = {"__metadata__": dict(layout.metadata)} if layout.metadata else {}
    begin = 0
    for name, (dtype, shape) in layout.tensors.items():
        end = begin + SIZES[dtype] * prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    with (homes[1] / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        start = file.tell()
        file.truncate(start + begin)
        for name, data in _maps(layout).items():
            file.seek(start + header[name]["data_offsets"][0])
            file.write(data)
    return homes


def _maps(layout: Layout) -> dict[str, bytes]:
    """Return a d2t and t2d as training makes them: all of the first ids, then ever fewer."""
    if "d2t" not in layout.tensors:
        return {}
    (rows,) = layout.tensors["d2t"][1]
    full = (
        layout.config.get("vocab_size") or layout.config["transformer_layer_config"]["vocab_size"]
    )
    half = rows // 2
    kept = [*range(half), *(half + (full - half) * i // (rows - half) for i in range(rows - half))]
    mask = bytearray(full)
    for i in kept:
        mask[i] = 1
    d2t = struct.pack(f"<{rows}q", *(target - i for i, target in enumerate(kept)))
    return {"d2t": d2t, **({"t2d": bytes(mask)} if "t2d" in layout.tensors else {})}
