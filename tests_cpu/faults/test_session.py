"""The test process itself is lost: what the session makes of it, and what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from eagle3_checks.shipped import shipped
from tests_cpu.faults.conftest import FAULTY, TINY, left_behind

pytestmark = pytest.mark.timeout(120)

PROFILE = """
[target]
path = "{tiny}/target"
[drafter]
path = "{tiny}/drafter"
[server]
device = "cpu"
sglang = "0.5.23"
command = ["{python}", "{faulty}", "--fault", "{fault}"]
env = {{ FAULTS_OF = "{mark}" }}
[prompts]
sets = ["heldout-code"]
limit = 8
[speed]
concurrencies = [4]
requests = 4
[floors]
accept_length = 1.5
"""


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "profile.toml"
    told = {"tiny": TINY, "python": sys.executable, "faulty": FAULTY, "mark": tmp_path}
    path.write_text(PROFILE.format(fault="slow", **told))
    return path


def measuring(folder: Path) -> bool:
    """Whether the server of a gate is up: its probe has written."""
    return any((folder / "eagle3-artefacts").glob("probe.*.jsonl"))


def until_gone(mark: str) -> tuple[str, ...]:
    """Wait until nothing is left behind; return what is, at a deadline."""
    deadline = time.monotonic() + 20
    while (left := left_behind(mark)) and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    return left


def test_a_gate_killed_while_it_measures_leaves_nothing(profile: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "eagle3_checks", "gate", "--profile", str(profile)]
    gate = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        while not measuring(tmp_path):
            assert gate.poll() is None
        assert left_behind(str(tmp_path))
        gate.send_signal(signal.SIGKILL)
    finally:
        gate.kill()
        gate.wait()
    assert until_gone(str(tmp_path)) == ()


@pytest.mark.slow
def test_a_worker_killed_while_it_measures_is_no_verdict(profile: Path, tmp_path: Path) -> None:
    words = ["-m", "gpu", "-n", "1", "-p", "no:cacheprovider", "--eagle3-profile", str(profile)]
    command = [sys.executable, "-m", "pytest", str(shipped("tests_gpu")), *words]
    with (tmp_path / "out").open("w") as out:
        gate = subprocess.Popen(command, cwd=tmp_path, stdout=out)
        try:
            while not measuring(tmp_path):
                assert gate.poll() is None
            (owner,) = {
                int(word.partition("=")[2])
                for process in left_behind(str(tmp_path))
                for word in process.split()
                if word.startswith("--owner=")
            }
            assert owner != gate.pid
            os.kill(owner, signal.SIGKILL)
            code = gate.wait(100)
        finally:
            gate.kill()
            gate.wait()
    # Another worker takes over and may well pass; what the first one did is open.
    assert code == 7, (tmp_path / "out").read_text()
    assert until_gone(str(tmp_path)) == ()
