"""The real server halted or killed: the run ends soon, never with a verdict on the drafter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests_cpu.serve.test_interruptions import LIMIT, processes_of, wait_until

MEASURING = '"POST /generate HTTP'


class Run:
    """A gate in a process of its own."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.artefacts = folder / "artefacts"
        self.result = folder / "result.json"
        command = [sys.executable, "-m", "eagle3_checks", "gate", "--profile", "tiny"]
        command += ["--artefacts", str(self.artefacts), "--json", str(self.result)]
        self.output = (folder / "output").open("w+")
        self.gate = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | {f"EAGLE3_CHECKS_{key}": value for key, value in settings.items()},
            stdout=self.output,
            stderr=subprocess.STDOUT,
        )

    def until(self, mark: str, times: int = 1) -> None:
        """Wait until the server's log holds a text so often."""
        log = self.artefacts / "server.log"
        what = f"{times} times {mark!r} in the log"
        wait_until(lambda: log.exists() and log.read_text().count(mark) >= times, what)

    def scheduler(self) -> int:
        """Return the process that runs the models."""
        for pid in processes_of(self.artefacts):
            if b"sglang::scheduler" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        pytest.fail("there is no scheduler")

    def ended(self) -> tuple[int, float, dict[str, Any]]:
        """Wait for the end; return exit code, seconds, and the result."""
        began = time.monotonic()
        code = self.gate.wait(LIMIT)
        result: dict[str, Any] = json.loads(self.result.read_text())
        return code, time.monotonic() - began, result

    def close(self) -> None:
        self.gate.kill()
        self.gate.wait()
        self.output.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path, PROMPTS_MAX_NEW_TOKENS="400")
    yield made
    made.close()


def finding(result: dict[str, Any], code: str) -> dict[str, Any]:
    return next(f for f in result["findings"] if f["code"] == code)


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=lambda n: n.name)
def test_a_scheduler_lost_while_measured(run: Run, number: signal.Signals) -> None:
    run.until("ready to roll")
    run.until(MEASURING, times=6)
    os.kill(run.scheduler(), number)
    code, seconds, result = run.ended()
    assert code == 7
    assert seconds < 60  # half of the profile's request_timeout: it did not wait for that
    message = finding(result, "SRV003")["message"]
    if number is signal.SIGSTOP:
        assert message.startswith("the server hangs: no answer and no token, not even to a probe")
        assert "is stopped by a signal" in message
    else:
        assert message.startswith("the server ended while it was measured")
        assert "a process of the server was killed" in message
    assert finding(result, "ACC001")["status"] == "skip"
    assert list(processes_of(run.artefacts)) == []


@pytest.mark.slow
def test_a_scheduler_halted_while_it_starts(tmp_path: Path) -> None:
    run = Run(tmp_path, SERVER_STALL_TIMEOUT="4")
    try:
        run.until("Init parallel begin")
        os.kill(run.scheduler(), signal.SIGSTOP)
        code, _, result = run.ended()
    finally:
        run.close()
    assert code == 7
    message = finding(result, "SRV003")["message"]
    assert message.startswith("the server's start is stuck")
    assert "is stopped by a signal" in message
    assert "stuck in: process" in message  # its parent said where it waits
    assert list(processes_of(run.artefacts)) == []
