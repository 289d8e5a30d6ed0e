from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from eagle3_checks.facts import ServerSeen, TargetConfig
from eagle3_checks.measure.baseline import Key
from eagle3_checks.measure.machine import gpu_name, hardware, machine_key
from eagle3_checks.profile import Model, Profile, Prompts, Server, Speculation

CPU = Profile(target=Model(path="/models/tiny"), server=Server(device="cpu"))


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    gpu_name.cache_clear()
    yield
    gpu_name.cache_clear()


def tool(folder: Path, script: str) -> None:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def key(profile: Profile = CPU, **changes: str) -> Key:
    server = ServerSeen(
        url="", launched=True, sglang="0.5.23", info={"dtype": "auto"} | changes, environment={}
    )
    target = TargetConfig(source="", raw={"hidden_size": 128})
    return machine_key(profile, server, drafter_hash="sha256:1", target=target, prompts="ab")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("printf 'NVIDIA H200\\nNVIDIA H200\\n'", "NVIDIA H200"),
        ("echo 'no devices were found'; exit 6", "unknown"),
        ("true", "unknown"),
    ],
)
def test_the_name_of_the_first_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, expected: str
) -> None:
    tool(tmp_path, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_name() == expected


def test_without_the_tool_and_elsewhere_it_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_name() == "unknown"
    assert hardware(CPU) == "cpu"
    assert hardware(Profile(server=Server(url="http://h:1", device="cpu"))) == "unknown"


def test_what_two_runs_must_share() -> None:
    own = key()
    assert own.gpu == "cpu"
    assert own.speculation == "EAGLE3 3-1-4"
    assert own.target.startswith("tiny@")
    moved = replace(CPU, target=Model(path="/elsewhere/tiny"))
    assert key(moved) == own, "a folder may lie elsewhere on another machine"
    others = [
        key(replace(CPU, speculation=Speculation(steps=5, draft_tokens=6))),
        key(replace(CPU, prompts=Prompts(max_new_tokens=64))),
        key(replace(CPU, prompts=Prompts(chat_template=True))),
        key(dtype="float32"),
        key(quantization="fp8"),
    ]
    assert len({other.file for other in others} | {own.file}) == len(others) + 1


def test_gpus_are_counted_by_the_tensor_parallel_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, "echo NVIDIA H200")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert key(replace(CPU, server=Server(device="cuda", tp=8))).gpu == "8 x NVIDIA H200"
