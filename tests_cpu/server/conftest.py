from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from eagle3_checks.profile import Model, Profile, Server

STUB = Path(__file__).parent / "stub.py"
SECONDS = 20.0
"""How long a test waits for what must happen soon; only a failing test waits so long."""


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("EAGLE3_") and name != "EAGLE3_CHECKS_CACHE":
            monkeypatch.delenv(name)


@pytest.fixture
def artefacts(tmp_path: Path) -> Path:
    return tmp_path / "artefacts"


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    return str(folder)


@pytest.fixture
def stub_profile(checkpoint: str) -> Callable[..., Profile]:
    """Make a profile whose server is the stub; arguments are the stub's."""

    def make(  # noqa: PLR0913 - one per key of a profile that a test varies
        *stub: str,
        args: tuple[str, ...] = (),
        port: int = 0,
        start_timeout: float = SECONDS,
        request_timeout: float = SECONDS,
        stall_timeout: float = SECONDS,
        host: str = "127.0.0.1",
        drafter: str = checkpoint,
    ) -> Profile:
        return Profile(
            target=Model(path=checkpoint),
            drafter=Model(path=drafter),
            server=Server(
                device="cpu",
                command=(sys.executable, "-I", "-S", str(STUB), *stub),
                args=args,
                host=host,
                port=port,
                start_timeout=start_timeout,
                request_timeout=request_timeout,
                stall_timeout=stall_timeout,
            ),
        )

    return make


class Fifo:
    """A named pipe through which another process reports a line of JSON."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        # Open for writing too, so that neither side blocks until the other is there.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def read(self) -> list[int]:
        ready, _, _ = select.select([self._fd], [], [], SECONDS)
        assert ready, "nothing was reported"
        pids: list[int] = json.loads(os.read(self._fd, 4096))
        return pids

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Fifo]:
    """Where the stub reports server, child and detached grandchild (``--pids``)."""
    fifo = Fifo(tmp_path / "family")
    yield fifo
    fifo.close()


@pytest.fixture
def wait_gone() -> Callable[[Iterable[int]], None]:
    """Wait until all processes have ended; fail after a deadline."""

    def wait(pids: Iterable[int]) -> None:
        deadline = time.monotonic() + SECONDS
        for pid in pids:
            try:
                handle = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            ready, _, _ = select.select([handle], [], [], max(0, deadline - time.monotonic()))
            os.close(handle)
            assert ready, f"process {pid} still runs"

    return wait
