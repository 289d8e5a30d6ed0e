"""Fixtures around the real SGLang server on the CPU engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests_cpu.serve.running import SMALL, TINY, Run

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark this folder's tests: they start the real server."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.serve)


@pytest.fixture
def run_gate(tmp_path: Path) -> Callable[..., Run]:
    """Run `eagle3-checks gate` on a pair with the tiny profile, as a user would."""

    def run(pair: Path = TINY, *words: str, **environment: str) -> Run:
        out = tmp_path / "result.json"
        command = [sys.executable, "-m", "eagle3_checks", "gate", "--profile", "tiny"]
        command += ["--target", str(pair / "target"), "--draft", str(pair / "drafter")]
        command += ["--json", str(out), "--artefacts", str(tmp_path / "artefacts"), *words]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | SMALL | environment,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert out.is_file(), done.stdout + done.stderr
        return Run(done.returncode, done.stdout, json.loads(out.read_text()))

    return run
