"""The reference against SGLang's own classes: every option of published drafters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from eagle3_checks.reference.checkpoint import load_drafter
from eagle3_checks.server.flags import build_environment
from eagle3_checks.settings import resolve
from tests_cpu.serve.options import drafters, write
from tests_cpu.serve.running import TINY

CLOSE = {"float32": 2e-5, "bfloat16": 6e-2}
"""Largest difference of numbers that are around 1."""


def asked_of_sglang(folders: Mapping[str, Path], dtype: str, home: Path) -> dict[str, str]:
    """Run all drafters with SGLang's classes, in one process; return what stopped it, by name."""
    command = [sys.executable, "-m", "tests_cpu.serve.real_forward", dtype, str(TINY / "target")]
    profile = resolve("tiny", environ={}).profile
    with (home / "log").open("w") as log:
        done = subprocess.run(
            [*command, *map(str, folders.values())],
            env=build_environment(
                profile, device="cpu", probe_prefix=home / "probe", base=os.environ
            ),
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=500,
            check=False,
        )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"d')]
    assert lines, (home / "log").read_text()[-4000:]
    assert lines[-1] == {"done": len(folders)}, (home / "log").read_text()[-4000:]
    names = {str(folder): name for name, folder in folders.items()}
    return {names[line["drafter"]]: line["error"] for line in lines[:-1]}


@torch.no_grad()
def computed(folder: Path, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Return what the reference makes of a drafter's inputs."""
    inputs = load_file(folder / "inputs.safetensors")
    drafter = load_drafter(folder, inputs["embed"], head=inputs["head"], dtype=dtype)
    made: dict[str, torch.Tensor] = {}
    states = inputs["aux"].to(dtype)
    for turn in ("first", "second"):
        hidden, tokens = drafter.fuse(states[None]), inputs["tokens"][None]
        logits, out = drafter.step(tokens, hidden, 0, drafter.begin())
        states = out[0]
        made |= {f"{turn}.logits": logits[0], f"{turn}.states": states}
    return made


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_the_reference_computes_what_sglang_computes(dtype: str, tmp_path: Path) -> None:
    kind: Any = getattr(torch, dtype)
    folders = {name: tmp_path / str(n) for n, name in enumerate(drafters())}
    for name, settings in drafters().items():
        write(folders[name], settings, dtype=kind)
    assert asked_of_sglang(folders, dtype, tmp_path) == {}
    wrong: dict[str, dict[str, float]] = {}
    for name, folder in folders.items():
        ours, theirs = computed(folder, kind), load_file(folder / "outputs.safetensors")
        assert ours.keys() == theirs.keys()
        apart = {key: (ours[key] - theirs[key]).abs().max().item() for key in ours}
        if max(apart.values()) > CLOSE[dtype]:
            wrong[name] = apart
    assert wrong == {}
