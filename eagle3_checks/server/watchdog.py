"""Runs a server and ends every process of it when its owner ends, in whatever way that happens.

A script of its own on the standard library alone (``python -I -S watchdog.py …``), so that it
starts in milliseconds and survives anything that happens to the test process:

- it holds the read end of a pipe; ``stop``, or the pipe's end, ends the server. It also waits for
  the owner itself, since a forked child of the owner may keep the pipe open;
- it is a *child subreaper* (prctl(2)): processes that leave the server's session are handed to it
  when their parent dies, so the server's processes are exactly its own descendants;
- the server gets SIGKILL from the kernel when the watchdog dies (``PR_SET_PDEATHSIG``).

Status lines (JSON) on the other pipe: ``started {pid}``, ``failed {error}``, ``exited {code}``,
``ended {left, removed}``.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any, NamedTuple

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
IN_CREATE = 0x100
IN_MOVED_TO = 0x80
KILL_SECONDS = 30.0
"""How long SIGKILL is repeated; a process in uninterruptible sleep (a hung driver) outlives it."""
STOP_COMMAND_SECONDS = 60.0
STOP, ABORT, DUMP = b"stop", b"abort", b"dump"
"""How the server is to be ended, written to the control pipe."""
ENDING = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
_SHM = Path("/dev/shm")  # noqa: S108 - POSIX shared memory, not a place for temporary files
_POLL_SECONDS = 0.05
_AGAIN_SECONDS = 0.2


def parents() -> dict[int, int]:
    """Map the pid of every process to its parent's."""
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # The name in parentheses may hold spaces and parentheses itself: proc(5).
                stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                found[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def descendants(root: int) -> set[int]:
    """Return the pids of all living descendants of a process, in any session."""
    parent = parents()
    found: set[int] = set()
    grew = True
    while grew:
        new = {p for p, up in parent.items() if (up == root or up in found) and p not in found}
        found |= new
        grew = bool(new)
    return found


class SharedMemory:
    """The files below /dev/shm that a server's processes use, known by their inodes.

    A crashed process can no longer be asked, so they are noted when they appear (inotify(7)).
    Names would not do: sem_open(3) maps a file that it renames afterwards.
    """

    def __init__(self, libc: ctypes.CDLL) -> None:
        self.before = {path.name for path in _SHM.glob("*")}
        self.inodes: set[int] = set()
        self.events: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.events >= 0:
            libc.inotify_add_watch(self.events, bytes(_SHM), IN_CREATE | IN_MOVED_TO)

    def note(self, pids: set[int]) -> None:
        """Note the files that these processes use."""
        with contextlib.suppress(OSError):
            os.read(self.events, 1 << 16)
        self.inodes |= used(pids)

    def remove(self) -> list[str]:
        """Remove the noted files that are new and that no living process uses; return them."""
        removed: list[str] = []
        new = [path for path in _SHM.glob("*") if path.name not in self.before]
        kept = used(set(parents())) if new else set()
        for path in new:
            with contextlib.suppress(OSError):
                if path.lstat().st_ino in self.inodes - kept:
                    path.unlink()
                    removed.append(str(path))
        return removed


def used(pids: set[int]) -> set[int]:
    """Return the inodes of the files below /dev/shm that these processes have open or mapped."""
    found: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
            found |= {int(line.split()[4]) for line in maps.splitlines() if f" {_SHM}/" in line}
        with contextlib.suppress(OSError):
            for fd in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if fd.readlink().is_relative_to(_SHM):
                        found.add(fd.stat().st_ino)
    return found


def send(pids: set[int], number: int) -> None:
    """Signal processes; those already gone are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


class Watchdog:
    """One server and everything it started."""

    def __init__(self, control: int, status: int, owner: int) -> None:
        self.control = control
        self.status = status
        self.owner = owner
        self.server: int | None = None
        # Kept: a Popen that is collected waits for its child and takes the exit code away.
        self.process: subprocess.Popen[bytes] | None = None
        self.code: int | None = None
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.shm = SharedMemory(self.libc)
        self.wake, wake_write = os.pipe()
        for fd in (self.wake, wake_write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (*ENDING, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)

    def tell(self, event: str, **fields: Any) -> None:
        """Write one status line; an owner that is gone reads none."""
        with contextlib.suppress(OSError):
            os.write(self.status, (json.dumps({"event": event, **fields}) + "\n").encode())

    def start(self, command: list[str], log: IO[bytes]) -> bool:
        """Start the server in a session of its own; return whether it was started."""
        libc = self.libc
        if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            self.tell("failed", error=f"prctl: {os.strerror(ctypes.get_errno())}")
            return False
        me = os.getpid()

        def in_child() -> None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            # The watchdog may have died before the line above: then no signal would ever come.
            if os.getppid() != me:
                os._exit(127)

        try:
            # This process has a single thread, so that neither the caution about preexec_fn nor
            # the death of the *thread* that forked (prctl(2), PR_SET_PDEATHSIG) applies.
            self.process = subprocess.Popen(  # noqa: S603 - the command is the profile's
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=in_child,  # noqa: PLW1509
            )
        except (OSError, subprocess.SubprocessError) as error:
            self.tell("failed", error=str(error))
            return False
        self.server = self.process.pid
        self.tell("started", pid=self.server)
        return True

    def watch(self) -> None:
        """Return when the server has exited, or must end."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.wake, selectors.EVENT_READ)
            selector.register(self.control, selectors.EVENT_READ)
            owner = self._open_owner()
            if owner is not None:
                selector.register(owner, selectors.EVENT_READ)
            if self.shm.events >= 0:
                selector.register(self.shm.events, selectors.EVENT_READ)
            again = False
            while self.code is None:
                ready = {key.fd for key, _ in selector.select(_AGAIN_SECONDS if again else None)}
                self.reap()
                if ready - {self.wake, self.shm.events} or self._signalled():
                    return
                # Once more a moment later: a file appears before it is mapped.
                if again or self.shm.events in ready:
                    self.shm.note(descendants(os.getpid()))
                again = self.shm.events in ready

    def _open_owner(self) -> int | None:
        """Return a descriptor that is readable once the owner is gone, where Linux has such."""
        try:
            return os.pidfd_open(self.owner)
        except (OSError, AttributeError):  # Linux < 5.3, sandboxes, Pythons built on older ones
            return None

    def _signalled(self) -> bool:
        numbers = bytearray()
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.wake, 256):
                numbers += chunk
        return not ENDING.isdisjoint(numbers)

    def reap(self) -> None:
        """Collect ended children, adopted ones included, and report the server's exit."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.server:
                    self.code = os.waitstatus_to_exitcode(status)
                    self.tell("exited", code=self.code)

    def asked(self) -> bytes:
        """Return what the owner asked for (`STOP`, `ABORT`, `DUMP`); nothing where it is gone."""
        os.set_blocking(self.control, False)
        with contextlib.suppress(OSError):
            return os.read(self.control, 64).strip()
        return b""

    def end(self, pace: Pace, how: bytes = STOP) -> set[int]:
        """End all processes and return those that are left.

        SIGTERM goes to the server's first process, which ends its ranks in order, then to all; then
        SIGABRT, with `ABORT`, and SIGKILL. `DUMP` begins with SIGABRT, on which Python processes
        write their stacks: SIGTERM would end those that have no handler without a word.
        """
        abort = how == ABORT
        me = os.getpid()
        left = descendants(me)
        self.shm.note(left)
        lead = pace.lead if self.server in left and self.code is None else 0.0
        if how == DUMP:
            lead = 0.0
            no_core(left)
        first = signal.SIGABRT if how == DUMP else signal.SIGTERM
        send({self.server or 0} if lead else left, first)
        plan = [(lead, signal.SIGTERM)] if lead else []
        plan += [(lead + pace.grace, signal.SIGABRT)] if abort else []
        last = lead + pace.grace * (1 + abort)
        started = time.monotonic()
        while left:
            time.sleep(_POLL_SECONDS)
            self.reap()
            left = descendants(me)
            passed = time.monotonic() - started
            if passed > last:
                send(left, signal.SIGKILL)
            elif plan and passed > plan[0][0]:
                number = plan.pop(0)[1]
                if number == signal.SIGABRT:
                    no_core(left)
                send(left, number)
            if passed > last + KILL_SECONDS:
                break
        return left


class Pace(NamedTuple):
    """How long a server's end may take, in seconds."""

    lead: float
    """From SIGTERM to the first process to SIGTERM to all; 0 asks all at once."""
    grace: float
    """From SIGTERM to all to the next signal, and from SIGABRT to SIGKILL."""


def no_core(pids: set[int]) -> None:
    """Keep processes from writing their memory to disk when they abort."""
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            hard = resource.prlimit(pid, resource.RLIMIT_CORE)[1]
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, hard))


def run_stop_command(words: list[str], log: IO[bytes]) -> None:
    """Run the command that ends a server which lives elsewhere, in a container."""
    try:
        subprocess.run(  # noqa: S603 - the command is the profile's
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=STOP_COMMAND_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        with contextlib.suppress(OSError):
            log.write(f"server.stop_command: {error}\n".encode())


def main(arguments: list[str]) -> int:
    """Run a server until it exits or its owner does; return its exit code, 128 + n for signal n."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--status", type=int, required=True)
    parser.add_argument("--owner", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--lead", type=float, default=0.0)
    parser.add_argument("--grace", type=float, default=5.0)
    parser.add_argument("--stop-command", type=json.loads, default=[])
    parser.add_argument("--temporary")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(arguments)
    for fd in (given.control, given.status):
        os.set_inheritable(fd, False)
    watchdog = Watchdog(given.control, given.status, given.owner)
    left: set[int] = set()
    with given.log.open("ab", buffering=0) as log:
        if os.getppid() == given.owner and watchdog.start(given.command, log):
            try:
                watchdog.watch()
            finally:
                if given.stop_command:
                    run_stop_command(given.stop_command, log)
                left = watchdog.end(Pace(given.lead, given.grace), watchdog.asked())
    removed = watchdog.shm.remove()
    if given.temporary:
        shutil.rmtree(given.temporary, ignore_errors=True)
    watchdog.tell("ended", left=sorted(left), removed=removed)
    code = watchdog.code or 0
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
