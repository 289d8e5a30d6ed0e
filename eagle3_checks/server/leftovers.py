"""Server processes that outlived their owner, found by the id in their environment."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from eagle3_checks.server.flags import RUN_ID
from eagle3_checks.server.redact import Redactor

_SWEEP_SECONDS = 10.0
FRESH_SECONDS = 60.0
"""A younger folder may be that of a launch that has not started its process yet."""
_POLL_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """A process of a launched server."""

    pid: int
    cmdline: str
    run_id: str


def leftovers(run_id: str | None = None) -> tuple[Leftover, ...]:
    """Return the living processes of the launch `run_id`, or of any launch; own user's only."""
    mark = f"{RUN_ID}=".encode()
    found: list[Leftover] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        # A process may end between any two of these reads; a zombie's environment is empty.
        with contextlib.suppress(OSError):
            values = (entry / "environ").read_bytes().split(b"\0")
            seen = [v[len(mark) :].decode(errors="replace") for v in values if v.startswith(mark)]
            if seen and run_id in (None, seen[0]):
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
                command = Redactor().command(words.rstrip("\0").split("\0"))
                found.append(
                    Leftover(pid=int(entry.name), cmdline=" ".join(command), run_id=seen[0])
                )
    return tuple(sorted(found, key=lambda left: left.pid))


@dataclass(frozen=True, kw_only=True)
class Remains:
    """What earlier runs left on this machine, their owners gone."""

    processes: tuple[Leftover, ...]
    folders: tuple[Path, ...]

    @property
    def command(self) -> str:
        """The shell command that removes them."""
        parts = []
        if self.processes:
            parts.append("kill -9 " + " ".join(str(left.pid) for left in self.processes))
        if self.folders:
            parts.append("rm -r " + " ".join(shlex.quote(str(f)) for f in self.folders))
        return " && ".join(parts)


def remains() -> Remains:
    """Return what no living gate owns: processes, and temporary folders of launches."""
    found = leftovers()
    owned = {left.run_id for left in found if _owner_lives(left)}
    running = {temporary_prefix(left.run_id) for left in found}
    folders = [
        folder
        for folder in sorted(Path(tempfile.gettempdir()).glob("e3-????????-*"))
        if folder.is_dir()
        and time.time() - folder.stat().st_mtime > FRESH_SECONDS
        and not folder.name.startswith(tuple(running))
    ]
    return Remains(
        processes=tuple(left for left in found if left.run_id not in owned),
        folders=tuple(folder for folder in folders if folder.stat().st_uid == os.getuid()),
    )


def _owner_lives(left: Leftover) -> bool:
    """Whether this is the watchdog of a launch whose owner still runs."""
    owner = re.search(r"watchdog\.py .*--owner=(\d+)", left.cmdline)
    return owner is not None and Path(f"/proc/{owner[1]}").exists()


def sweep(run_id: str) -> tuple[Leftover, ...]:
    """End the processes of one launch with SIGKILL and return those that would not go.

    Removes the launch's temporary folder. For the case that the watchdog itself was killed.
    """
    deadline = time.monotonic() + _SWEEP_SECONDS
    while (left := leftovers(run_id)) and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    for folder in Path(tempfile.gettempdir()).glob(f"{temporary_prefix(run_id)}*"):
        shutil.rmtree(folder, ignore_errors=True)
    return left


def temporary_prefix(run_id: str) -> str:
    """Return how the name of a launch's temporary folder begins."""
    return f"e3-{run_id[:8]}-"
