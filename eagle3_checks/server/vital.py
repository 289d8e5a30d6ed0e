"""Signs of life of a server's processes, read from /proc: CPU time, memory, and what they wait on.

Nothing here speaks HTTP: a server may answer and be stuck, or be silent and hard at work.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eagle3_checks.server.phases import PhaseReader
from eagle3_checks.server.watchdog import descendants

MIB = 1 << 20
IDLE_SHARE = 0.02
"""Share of one core below which a process tree does nothing but be asked whether it is ready."""
LEAST_CPU_SECONDS = 0.2
LEAST_MEMORY = MIB
MOST_BYTES = MIB
"""Of a log that grew by more since it was last read, the rest is passed over."""
GPU_EVERY = 10.0
RELEASE_SECONDS = 30.0
SPARE_MIB = 512
"""What others on the GPU may take meanwhile."""
_GPU_SECONDS = 10.0
_log = logging.getLogger(__name__)
_ECHO = re.compile(rb'"(?:GET|POST) /(?:health|health_generate|generate) HTTP')
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_STOPPED = {"T": "stopped by a signal", "t": "stopped by a debugger", "Z": "a zombie"}


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process of a server."""

    pid: int
    name: str
    state: str
    """Letter of proc(5): R runs, S sleeps, D waits for a device, T is stopped, Z has ended."""
    cpu_seconds: float
    resident: int
    """Bytes; shared pages count in every process that maps them."""

    @property
    def halted(self) -> bool:
        """Whether it cannot run at all."""
        return self.state in _STOPPED

    def __str__(self) -> str:
        """Name the process, and its state where that explains a stall."""
        state = _STOPPED.get(self.state, "")
        return f"process {self.pid} ({self.name})" + (f" is {state}" if state else "")


@dataclass(frozen=True, kw_only=True)
class Signs:
    """What a process tree has done so far."""

    log_lines: int = 0
    """Lines that do not merely echo the wait for readiness."""
    cpu_seconds: float = 0.0
    resident: int = 0
    """Bytes of all processes together."""


def processes(root: int) -> tuple[Process, ...]:
    """Return the living descendants of a process, by pid."""
    found = (_process(pid) for pid in sorted(descendants(root)))
    return tuple(process for process in found if process is not None)


def _process(pid: int) -> Process | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        name, _, rest = stat.partition("(")[2].rpartition(")")
        fields = rest.split()
        return Process(
            pid=pid,
            name=name,
            state=fields[0],
            cpu_seconds=sum(map(int, fields[11:15])) / _TICKS,
            resident=int(fields[21]) * _PAGE,
        )
    return None


class LogLines:
    """Follows a growing log, reading each line once: how many there are, and what they tell."""

    def __init__(self, log: Path) -> None:
        self.reader = PhaseReader()
        self._log = log
        self._offset = 0
        self._lines = 0

    def count(self) -> int:
        """Return the number of whole lines that are no echo of the wait for readiness."""
        with contextlib.suppress(OSError), self._log.open("rb") as log:
            size = os.fstat(log.fileno()).st_size  # a flooded log grows faster than it is read
            if size - self._offset > MOST_BYTES:
                self._offset = size - MOST_BYTES
            log.seek(self._offset)
            for line in log:
                if self._offset >= size or not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                self._lines += not _ECHO.search(line)
                self.reader.take(line.decode(errors="replace"))
        return self._lines


def signs(root: int, lines: LogLines) -> Signs:
    """Read the signs of life of all descendants of `root`, and of their log."""
    tree = processes(root)
    return Signs(
        log_lines=lines.count(),
        cpu_seconds=sum(p.cpu_seconds for p in tree),
        resident=sum(p.resident for p in tree),
    )


def gpu_memory() -> tuple[int, ...]:
    """Return the MiB in use on each GPU of this machine; empty without ``nvidia-smi``."""
    try:
        return tuple(int(line) for line in ask_gpus("memory.used"))
    except ValueError:
        return ()


def wait_released(before: tuple[int, ...], gpus: str, *, seconds: float = RELEASE_SECONDS) -> None:
    """Wait until the GPUs hold no more than before the launch; warn of those that still do.

    The driver gives memory back some time after the last process has ended; the next server would
    find too little. `gpus` is ``all`` or indices, as in CUDA_VISIBLE_DEVICES.
    """
    own = range(len(before)) if not gpus.replace(",", "").isdigit() else map(int, gpus.split(","))
    mine = [index for index in own if index < len(before)]
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while mine:
        now = gpu_memory()
        mine = [i for i in mine if i < len(now) and now[i] > before[i] + SPARE_MIB]
        if mine and time.monotonic() >= deadline:
            held = ", ".join(f"GPU {i} {now[i] - before[i]} MiB" for i in mine)
            _log.warning("memory is held although the server has ended: %s (nvidia-smi)", held)
            return
        pause.wait(1.0 if mine else 0.0)


def ask_gpus(query: str) -> tuple[str, ...]:
    """Return a line for each GPU from ``nvidia-smi --query-gpu``; empty where it has none."""
    tool = _nvidia_smi()
    if not tool:
        return ()
    words = [tool, f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(  # noqa: S603 - the driver's own tool
            words, capture_output=True, text=True, timeout=_GPU_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(done.stdout.splitlines()) if done.returncode == 0 else ()


@functools.cache
def _nvidia_smi() -> str | None:
    return shutil.which("nvidia-smi")


class Pulse:
    """How long a process tree has shown no sign of life.

    A sign is a new log line, a MiB of memory gained or lost, CPU time beyond what answering the
    wait for readiness costs, or a GPU whose memory changed. GPUs are asked only once all else is
    still: the driver's tool takes its time.
    """

    def __init__(
        self,
        read: Callable[[], Signs],
        *,
        gpu: Callable[[], tuple[int, ...]] = gpu_memory,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._gpu = gpu
        self._clock = clock
        self._last = read()
        self._since = self._asked = clock()
        self._memory: tuple[int, ...] | None = None

    def still(self) -> float:
        """Read the signs again and return the seconds since the last one."""
        now, seen = self._clock(), self._read()
        if self._moved(seen, now - self._since):
            self._last, self._since, self._memory = seen, now, None
        elif now - max(self._since, self._asked) >= GPU_EVERY:
            memory, self._asked = self._gpu(), now
            if self._memory not in (None, memory):
                self._since = now
            self._memory = memory
        return now - self._since

    def _moved(self, seen: Signs, seconds: float) -> bool:
        last = self._last
        # A process that ended takes its CPU time along: less is a sign of life, too.
        cpu = abs(seen.cpu_seconds - last.cpu_seconds)
        return (
            seen.log_lines != last.log_lines
            or abs(seen.resident - last.resident) >= LEAST_MEMORY
            or cpu > max(LEAST_CPU_SECONDS, IDLE_SHARE * seconds)
        )
