from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.repackage.run import Outcome, repackage

Rebuild = Callable[..., Outcome]


@pytest.fixture
def broken(
    tmp_path: Path,
    healthy_config: Callable[..., dict[str, Any]],
    healthy_tensors: Callable[..., dict[str, Any]],
    tensor_file: Callable[..., bytes],
) -> Callable[..., Path]:
    """Return `broken(config=, tensors=, layer=)`: a drafter with weights that are not zeros."""

    def write(
        config: Mapping[str, Any] | None = None,
        tensors: Mapping[str, Any] | None = None,
        layer: str = "midlayer",
        rename: Callable[[str], str] = str,
    ) -> Path:
        folder = tmp_path / "in"
        folder.mkdir()
        changed = {**healthy_tensors(layer), **(tensors or {})}
        specs = {rename(k): _filled(k, v) for k, v in changed.items() if v is not ...}
        (folder / "model.safetensors").write_bytes(tensor_file(specs, {"format": "pt"}))
        (folder / "config.json").write_text(json.dumps(healthy_config("draft", **(config or {}))))
        return folder

    return write


def _filled(name: str, spec: Any) -> Any:
    """Give a tensor bytes of its own, so that any mix-up shows."""
    dtype, shape, data = spec
    if data is not None:
        return spec
    length = 2
    for size in shape:
        length *= size
    return dtype, shape, bytes((len(name) * 31 + i * 7) % 251 for i in range(length))


@pytest.fixture
def rebuild(tmp_path: Path) -> Rebuild:
    """Return `rebuild(folder, sglang=, target=)`, which repackages to `tmp_path / "out"`."""

    def run(folder: Path, sglang: str = "0.5.23", target: str = "") -> Outcome:
        return repackage(str(folder), tmp_path / "out", sglang=sglang, target=target)

    return run
