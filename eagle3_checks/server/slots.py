"""GPUs of one host, shared out to the servers that are launched on it at the same time.

Each GPU (on the CPU engine, each core) is a lock file. The lock is handed on to the server's
watchdog, so that it lasts until the server's last process has ended, however its owner ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from eagle3_checks.profile import Profile
from eagle3_checks.server.device import Served
from eagle3_checks.server.readiness import ServerStartError

_POLL_SECONDS = 0.2
_UNSAFE = re.compile(r"[^\w.-]")
VISIBLE = "CUDA_VISIBLE_DEVICES"
CORES = "SGLANG_CPU_OMP_THREADS_BIND"


class NoSlotError(ServerStartError):
    """Not enough GPUs for this server, or none that became free in time."""


class Slot:
    """What a server was given, and the locks that say so."""

    def __init__(
        self, units: tuple[str, ...], locks: contextlib.ExitStack, fds: tuple[int, ...]
    ) -> None:
        self.units = units
        """GPUs by index or UUID, or cores; empty where nothing is shared out."""
        self.fds = fds
        """Descriptors of the locks; whoever holds a copy holds the lock."""
        self._locks = locks

    def environment(self, device: Served) -> dict[str, str]:
        """Return the variables that keep a server to its slot."""
        if not self.units:
            return {}
        return {VISIBLE if device == "cuda" else CORES: ",".join(self.units)}

    def close(self) -> None:
        """Give this process's copies of the locks up."""
        self._locks.close()


def units(profile: Profile, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the GPUs that are shared out: the visible ones, or ``server.gpus`` from 0 on.

    Raises NoSlotError where fewer are visible than the profile says, or a server needs more.
    """
    count, each = profile.server.gpus, profile.server.tp
    visible = tuple(unit for unit in environ.get(VISIBLE, "").split(",") if unit.strip())
    given = visible[:count] if visible else tuple(map(str, range(count)))
    if len(given) < count:
        raise NoSlotError(
            f"server.gpus is {count}, but {VISIBLE} shows {len(visible)}: {','.join(visible)}"
        )
    if count and each > count:
        raise NoSlotError(f"server.tp is {each}, but server.gpus shares out {count} only")
    return given


@contextlib.contextmanager
def take(
    profile: Profile,
    device: Served,
    environ: Mapping[str, str],
    *,
    folder: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Slot]:
    """Take as many neighbouring GPUs as the server needs; wait until they are free.

    Without ``server.gpus`` nothing is shared out. Raises NoSlotError after
    ``server.start_timeout`` seconds.
    """
    every = units(profile, environ)
    each = profile.server.tp
    groups = [every[at : at + each] for at in range(0, len(every) - each + 1, each)]
    if not groups:
        yield Slot((), contextlib.ExitStack(), ())
        return
    home = folder or _home()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    kind = "gpu" if device == "cuda" else "core"
    deadline = clock() + profile.server.start_timeout
    pause = threading.Event()
    while (slot := _first_free(groups, home, kind)) is None:
        if clock() >= deadline:
            raise NoSlotError(
                f"no {each} of {len(every)} {kind}s became free in "
                f"{profile.server.start_timeout:g} s; end another gate on this host, or give "
                "server.gpus more"
            )
        pause.wait(_POLL_SECONDS)
    try:
        yield slot
    finally:
        slot.close()


def _first_free(groups: list[tuple[str, ...]], home: Path, kind: str) -> Slot | None:
    for group in groups:
        with contextlib.ExitStack() as stack:
            fds = [_lock(home / f"{kind}-{_UNSAFE.sub('_', unit)}.lock") for unit in group]
            for fd in fds:
                if fd is not None:
                    stack.callback(os.close, fd)
            held = tuple(fd for fd in fds if fd is not None)
            if len(held) == len(group):
                return Slot(group, stack.pop_all(), held)
    return None


def _lock(path: Path) -> int | None:
    """Return a descriptor that holds the lock; None where somebody else does."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


@contextlib.contextmanager
def own_folder(artefacts: Path) -> Iterator[int]:
    """Keep a folder of artefacts to one launch; yield the lock's descriptor.

    Two servers would write one log, and each be judged by what the other's probe saw. Raises
    ServerStartError where another launch has it.
    """
    fd = _lock(artefacts / ".lock")
    if fd is None:
        raise ServerStartError(
            f"another gate writes into {artefacts}; give this one a folder of its own: "
            "--eagle3-artefacts DIR"
        )
    try:
        yield fd
    finally:
        os.close(fd)


def _home() -> Path:
    user = _UNSAFE.sub("_", getpass.getuser())
    return Path(tempfile.gettempdir()) / f"eagle3-checks-{user}" / "slots"
