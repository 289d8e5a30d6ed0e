from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_checks.profile import Profile, Server
from eagle3_checks.server import device
from eagle3_checks.server.device import NoDeviceError, detect_device, served_device


def tool(folder: Path, script: str) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return {"PATH": str(folder)}


def test_a_device_file_is_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "nvidiactl").touch()
    assert detect_device({}, devices=tmp_path) is None
    (tmp_path / "nvidia3").touch()
    assert detect_device({}, devices=tmp_path) == "cuda"


@pytest.mark.parametrize("hidden", ["", "-1", "NoDevFiles"])
def test_hidden_gpus_are_none(hidden: str, tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    assert detect_device({"CUDA_VISIBLE_DEVICES": hidden}, devices=tmp_path) is None
    assert detect_device({"CUDA_VISIBLE_DEVICES": "0"}, devices=tmp_path) == "cuda"


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'", "cuda"),
        ("echo 'No devices were found'", None),
        ('echo "couldn\'t communicate with the NVIDIA driver"; exit 9', None),
    ],
)
def test_without_device_files_the_driver_is_asked(
    script: str, found: str | None, tmp_path: Path
) -> None:
    assert detect_device(tool(tmp_path / "bin", script), devices=tmp_path) == found


def test_a_tool_that_cannot_run_is_no_gpu(tmp_path: Path) -> None:
    environ = tool(tmp_path / "bin", "")
    (tmp_path / "bin" / "nvidia-smi").write_text("not a program", encoding="utf-8")
    assert detect_device(environ, devices=tmp_path) is None


def test_the_profile_decides_unless_it_says_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "detect_device", lambda: None)
    assert served_device(Profile(server=Server(device="cpu"))) == "cpu"
    assert served_device(Profile(server=Server(device="cuda"))) == "cuda"
    with pytest.raises(NoDeviceError, match="--eagle3-device cpu"):
        served_device(Profile())
    monkeypatch.setattr(device, "detect_device", lambda: "cuda")
    assert served_device(Profile()) == "cuda"
