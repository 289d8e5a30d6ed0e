"""The first values of matrices, read without torch."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file

from eagle3_checks.checkpoint import read_manifest
from eagle3_checks.checkpoint.corners import read_corners


def test_corners_are_torchs(tmp_path: Path) -> None:
    tensors = {
        str(dtype): torch.randn(5, 7).to(dtype)
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    }
    odd = {
        "small": torch.randn(2, 3),
        "vector": torch.randn(7),
        "ids": torch.arange(12).reshape(3, 4),
    }
    save_file(tensors | odd, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    corners = read_corners(tmp_path, read_manifest(tmp_path))
    assert set(corners) == {*tensors, "small"}
    for name, corner in corners.items():
        wanted = (tensors | odd)[name][:4, :4].double().tolist()
        assert [list(row) for row in corner] == wanted


def test_a_file_that_is_cut_has_none(tmp_path: Path) -> None:
    save_file({"a": torch.randn(8, 8)}, tmp_path / "model.safetensors")
    manifest = read_manifest(tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-250])
    assert read_corners(tmp_path, manifest) == {}
