"""Where the Python processes of a stuck server stand: stacks by py-spy, else by faulthandler."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from eagle3_checks.server.vital import Process

DUMP_SECONDS = 2.0
"""How long the dump of one process may take to reach the log."""
MOST_PROCESSES = 16
_SPY_SECONDS = 15.0
_POLL_SECONDS = 0.1
_HEAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+ .*\(most recent call first\):")
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<name>.+)$')
_SPY_THREAD = re.compile(r"^Thread \d+")
_SPY_FRAME = re.compile(r"^    (?P<name>.+?) \((?P<file>[^()]+):(?P<line>\d+)\)$")


@dataclass(frozen=True, kw_only=True)
class Stack:
    """The calls of one thread, innermost first, as ``name (file:line)``."""

    where: str
    """Process the thread belongs to, as far as it is known."""
    frames: tuple[str, ...]

    def __str__(self) -> str:
        """Return the innermost calls in one line."""
        return f"{self.where}: " + " < ".join(self.frames[:3])


def dump(tree: Iterable[Process], log: Path) -> tuple[Stack, ...]:
    """Return the stacks of all Python threads of a server's processes.

    Asks py-spy where it is installed; else the processes themselves, which write to their log on
    SIGUSR1 if they were started with the probe. A stopped process cannot answer and is left out.
    """
    pids = [process.pid for process in tree if not process.halted]
    tool = shutil.which("py-spy")
    if tool:
        seen = tuple(stack for pid in pids for stack in _spied(tool, pid))
        if seen:
            return seen
    return tuple(
        stack for pid in pids[:MOST_PROCESSES] if _catches(pid) for stack in _asked(pid, log)
    )


def _asked(pid: int, log: Path) -> tuple[Stack, ...]:
    """Ask one process at a time: what several write at once cannot be told apart."""
    before = _size(log)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGUSR1)
    _settle(log, before)
    return told(_from(log, before), f"process {pid}")


def told(text: str, where: str = "a thread") -> tuple[Stack, ...]:
    """Read the stacks that faulthandler wrote into a log."""
    stacks: list[Stack] = []
    frames: list[str] | None = None
    for line in text.splitlines():
        if _HEAD.match(line):
            _keep(stacks, frames, where)
            frames = []
        elif frames is not None:
            found = _FRAME.match(line)
            if found is None:
                _keep(stacks, frames, where)
                frames = None
            else:
                frames.append(_named(found))
    _keep(stacks, frames, where)
    return tuple(stacks)


def _keep(stacks: list[Stack], frames: list[str] | None, where: str) -> None:
    if frames:
        stacks.append(Stack(where=where, frames=tuple(frames)))


def _named(found: re.Match[str]) -> str:
    return f"{found['name']} ({short(found['file'])}:{found['line']})"


def short(file: str) -> str:
    """Shorten a path to what tells it apart: below site-packages, else its last two parts."""
    below = file.rpartition("/site-packages/")[2]
    if below != file or not file.startswith("/"):
        return below
    return "/".join(Path(file).parts[-2:])


def _spied(tool: str, pid: int) -> Iterator[Stack]:
    try:
        done = subprocess.run(  # noqa: S603 - found on PATH, asked about our own processes
            [tool, "dump", "--nonblocking", "--pid", str(pid)],
            capture_output=True,
            text=True,
            timeout=_SPY_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    frames: list[str] = []
    for line in [*done.stdout.splitlines(), ""]:
        found = _SPY_FRAME.match(line)
        if found is not None:
            frames.append(_named(found))
        elif frames and (not line or _SPY_THREAD.match(line)):
            yield Stack(where=f"process {pid}", frames=tuple(frames))
            frames = []


def _catches(pid: int) -> bool:
    """Whether a process has a handler for SIGUSR1; one that has none would be ended by it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        mask = int(status.partition("SigCgt:")[2].split()[0], 16)
        return bool(mask >> (signal.SIGUSR1 - 1) & 1)
    return False


def _settle(log: Path, before: int) -> None:
    """Wait until the log has grown and then rested, at most `DUMP_SECONDS`."""
    deadline = time.monotonic() + DUMP_SECONDS
    last = before
    pause = threading.Event()
    while time.monotonic() < deadline:
        pause.wait(_POLL_SECONDS)
        size = _size(log)
        if size > before and size == last:
            return
        last = size


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0


def _from(log: Path, offset: int) -> str:
    with contextlib.suppress(OSError), log.open("rb") as text:
        text.seek(offset)
        return text.read().decode(errors="replace")
    return ""
