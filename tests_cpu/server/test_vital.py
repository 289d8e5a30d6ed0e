"""Signs of life: what counts as progress and what does not; stacks as they are written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from eagle3_checks.server.stacks import Stack, dump, short, told
from eagle3_checks.server.vital import (
    LogLines,
    Process,
    Pulse,
    Signs,
    gpu_memory,
    processes,
    wait_released,
)

REST = Signs(log_lines=3, cpu_seconds=2.0, resident=1 << 30)


class Tree:
    """A process tree whose signs a test sets, on the test's own clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.signs = REST
        self.gpu = (100, 100)
        self.pulse = Pulse(lambda: self.signs, gpu=lambda: self.gpu, clock=lambda: self.now)

    def after(self, seconds: float) -> float:
        self.now += seconds
        return self.pulse.still()


def test_stillness_grows() -> None:
    tree = Tree()
    assert [tree.after(5), tree.after(5), tree.after(5)] == [5, 10, 15]


@pytest.mark.parametrize(
    "change",
    [
        {"log_lines": 4},
        {"cpu_seconds": 3.0},
        {"cpu_seconds": 0.5},  # a process ended
        {"resident": (1 << 30) + (1 << 20)},
        {"resident": 0},
    ],
)
def test_any_sign_begins_anew(change: dict[str, float]) -> None:
    tree = Tree()
    tree.after(8)
    tree.signs = replace(REST, **change)  # type: ignore[arg-type]
    assert tree.after(2) == 0
    assert tree.after(3) == 3


def test_answering_the_wait_for_readiness_is_no_sign() -> None:
    tree = Tree()
    for second in range(1, 100):
        tree.signs = replace(REST, cpu_seconds=2 + 0.002 * second)
        tree.after(1)
    assert tree.pulse.still() == 99


def test_a_gpu_whose_memory_changes_is_a_sign() -> None:
    tree = Tree()
    for _ in range(4):
        tree.after(6)
    assert tree.pulse.still() == 24
    tree.gpu = (100, 200)
    assert tree.after(11) == 0
    assert tree.after(12) == 12


def test_lines_that_echo_the_wait_do_not_count(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    lines = LogLines(log)
    assert lines.count() == 0
    log.write_text('INFO: 127.0.0.1:5 - "GET /health HTTP/1.1" 503\n')
    assert lines.count() == 0
    with log.open("a") as more:
        more.write("Load weight begin\nhalf a li")
    assert lines.count() == 1
    with log.open("a") as more:
        more.write("ne\n")
    assert lines.count() == 2


def test_a_flood_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("a line of thirty-two characters\n" * 100_000 + "Load weight begin\n")
    lines = LogLines(log)
    assert 0 < lines.count() < 40_000
    assert str(lines.reader) == "loading the target's weights"


def test_without_the_driver_s_tool_no_gpu_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagle3_checks.server.vital._nvidia_smi", lambda: None)
    assert gpu_memory() == ()


def test_gpu_memory_is_read_from_the_driver_s_tool(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf '12345\\n8\\n'\n")
    tool.chmod(0o755)
    monkeypatch.setattr("eagle3_checks.server.vital._nvidia_smi", lambda: str(tool))
    assert gpu_memory() == (12345, 8)
    tool.write_text("#!/bin/sh\necho No devices were found; exit 6\n")
    assert gpu_memory() == ()


def test_gpu_memory_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seen = iter([(9000, 9000), (4500, 9000), (1000, 9000)])
    monkeypatch.setattr("eagle3_checks.server.vital.gpu_memory", lambda: next(seen))
    monkeypatch.setattr("threading.Event.wait", lambda *_: True)
    wait_released((900, 700), "0")  # what happens on the GPU of others does not matter
    assert next(seen, None) is None
    monkeypatch.setattr("eagle3_checks.server.vital.gpu_memory", lambda: (9000, 9000))
    wait_released((900, 700), "all", seconds=0)
    assert "GPU 0 8100 MiB, GPU 1 8300 MiB" in caplog.text
    caplog.clear()
    wait_released((), "all")
    assert not caplog.text


SLEEPER = """
import faulthandler, os, signal, sys, threading
def held_here():
    os.write(1, b"up\\n")
    threading.Event().wait()
{register}
held_here()
"""


@pytest.fixture
def sleeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    code = SLEEPER.format(register=request.param)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", code], stderr=log, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def mine(pid: int) -> list[Process]:
    return [process for process in processes(os.getpid()) if process.pid == pid]


@pytest.mark.parametrize("sleeper", ["faulthandler.register(signal.SIGUSR1)"], indirect=True)
def test_a_process_writes_its_stacks_when_asked(
    sleeper: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    (stack,) = dump(mine(sleeper.pid), tmp_path / "log")
    assert stack.where == f"process {sleeper.pid}"
    assert stack.frames[0].startswith("wait (")
    assert any(frame.startswith("held_here (") for frame in stack.frames)
    assert sleeper.poll() is None


@pytest.mark.parametrize("sleeper", [""], indirect=True)
def test_a_process_that_would_be_ended_is_not_asked(
    sleeper: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert dump(mine(sleeper.pid), tmp_path / "log") == ()
    assert sleeper.poll() is None


@pytest.mark.parametrize("sleeper", [""], indirect=True)
def test_a_stopped_process_says_so(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
    (process,) = mine(sleeper.pid)
    assert process.halted
    assert str(process).endswith(") is stopped by a signal")


@pytest.mark.parametrize("sleeper", [""], indirect=True)
def test_py_spy_is_asked_first_where_it_is_installed(
    sleeper: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = tmp_path / "py-spy"
    spy.write_text(
        '#!/bin/sh\ncat <<END\nProcess 7: python\nPython v3.11.2\n\nThread 7 (idle): "MainThread"\n'
        "    all_reduce (torch/distributed/distributed_c10d.py:2501)\n"
        "    forward (srt/models/llama.py:300)\n"
        'Thread 9 (active): "x"\n    run (threading.py:982)\nEND\n'
    )
    spy.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda _: str(spy))
    first, second = dump(mine(sleeper.pid), tmp_path / "log")
    assert str(first) == (
        f"process {sleeper.pid}: all_reduce (torch/distributed/distributed_c10d.py:2501) < "
        "forward (srt/models/llama.py:300)"
    )
    assert second.frames == ("run (threading.py:982)",)


def test_stacks_are_read_out_of_a_log() -> None:
    text = """before
Fatal Python error: Aborted

Current thread 0x00007f8e (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/cuda/__init__.py", line 319 in _lazy_init
  File "/venv/lib/python3.11/site-packages/sglang/launch_server.py", line 3 in <module>

Thread 0x00007f8f [worker] (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
after
"""
    assert told(text) == (
        Stack(
            where="a thread",
            frames=(
                "_lazy_init (torch/cuda/__init__.py:319)",
                "<module> (sglang/launch_server.py:3)",
            ),
        ),
        Stack(where="a thread", frames=("wait (python3.11/threading.py:320)",)),
    )
    assert short("<string>") == "<string>"
