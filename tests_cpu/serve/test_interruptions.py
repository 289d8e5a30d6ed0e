"""Whatever ends the test process, no server process is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
# Where in the start the signal falls: before the log, while it loads, and when it serves.
MOMENTS = ("", "Load weight", "Uvicorn running")
LIMIT = 180.0


def processes_of(artefacts: Path) -> Iterator[int]:
    """Yield every process whose environment or command names these artefacts."""
    mark = str(artefacts).encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes():
                    yield int(entry.name)


def wait_until(condition: Callable[[], bool], what: str, limit: float = LIMIT) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, what
        threading.Event().wait(0.05)


@pytest.fixture(autouse=True)
def heeded_interrupts() -> Iterator[None]:
    """Let children heed SIGINT although a shell's `&` may have it ignored, which is inherited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def launch(artefacts: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "eagle3_checks", "gate", "--profile", "tiny"]
    command += ["--artefacts", str(artefacts), "--", "-k", "SRV003"]
    return subprocess.Popen(
        command, cwd=artefacts.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@pytest.mark.parametrize("number", range(3))
def test_an_interrupted_gate_leaves_nothing(tmp_path: Path, number: int) -> None:
    interrupt(tmp_path / "artefacts", SIGNALS[number], MOMENTS[number])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_launches_half_of_them_interrupted(tmp_path: Path) -> None:
    for number in range(20):
        artefacts = tmp_path / f"run-{number}"
        if number % 2:
            place = number // 2
            interrupt(artefacts, SIGNALS[place % 3], MOMENTS[(place // 3) % 3])
        else:
            assert launch(artefacts).wait(LIMIT) == 0
            assert list(processes_of(artefacts)) == []


def interrupt(artefacts: Path, number: signal.Signals, moment: str) -> None:
    gate = launch(artefacts)
    log = artefacts / "server.log"
    try:
        wait_until(lambda: log.exists() and moment in log.read_text(), f"{moment!r} in the log")
        assert list(processes_of(artefacts))
        gate.send_signal(number)
        assert gate.wait(LIMIT) != 0
    finally:
        gate.kill()
        gate.wait()
    wait_until(lambda: not list(processes_of(artefacts)), f"left after {number.name}", 60)
