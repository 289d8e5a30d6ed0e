"""Looks at a server while it is measured, so that its end is not taken for the drafter's fault."""

from __future__ import annotations

import threading
import time
from typing import Protocol, Self

from eagle3_checks.server.protocol import Server

TICK_SECONDS = 0.5
MEMORY_SECONDS = 2.0
BUSY_SHARE = 0.1
"""Share of one core from which on a process tree computes, and does not merely wait."""
BUSY_FACTOR = 3
"""How many times the hang timeout a server that computes is given: it may compile a kernel, and
answers nobody meanwhile; or it spins, and will never answer."""
_LEAST_PROBE_SECONDS = 1.5
_QUIET_SHARE = 0.5
"""Share of the hang timeout after which a silent server is asked whether it works."""


class Measuring(Protocol):
    """What sends requests to the server."""

    def silence(self) -> float:
        """Return the seconds since the server was last heard; 0 where no request is in flight."""
        ...

    def heard(self) -> None:
        """Note that the server has shown a sign of life elsewhere."""
        ...

    def abort(self, why: str) -> None:
        """Break all requests off, and fail those to come with this reason."""
        ...


class Watch:
    """Watches one server from a thread of its own; a context manager.

    A server that ended, or that neither answers a request nor a probe for `hang_timeout` seconds,
    has its requests broken off at once: `lost` says why. A slow one answers the probe; one that is
    seen to compute is given three times as long.
    """

    def __init__(self, server: Server, client: Measuring, hang_timeout: float) -> None:
        self._server = server
        self._client = client
        self._limit = hang_timeout
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="eagle3-watch", daemon=True)
        self._quiet: tuple[float, float] | None = None
        """Silence and CPU time of the server when it was first found quiet."""
        self.lost = ""
        self.hung = False
        self.peak_memory: int | None = None
        """Most resident memory of the server's processes together, in bytes; None if unseen."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop looking; safe to call twice."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        weighed = -MEMORY_SECONDS
        while not self._over.wait(TICK_SECONDS):
            now = time.monotonic()
            if now - weighed >= MEMORY_SECONDS:
                weighed = now
                self._weigh()
            if self._server.ended():
                self._lose("the server ended while it was measured")
            elif self._hangs():
                self.hung = True
                self._lose(
                    "the server hangs: no answer and no token, not even to a probe, for "
                    f"{self._client.silence():.0f} s (server.hang_timeout)"
                )
            if self.lost:
                return

    def _hangs(self) -> bool:
        silence = self._client.silence()
        if silence < self._limit * _QUIET_SHARE:
            self._quiet = None
            return False
        if self._quiet is None:
            self._quiet = silence, self._server.cpu_seconds()
        if self._server.endpoint.working(max(self._limit - silence, _LEAST_PROBE_SECONDS)):
            self._client.heard()
            return False
        silence = self._client.silence()
        return silence >= self._limit * (BUSY_FACTOR if self._busy(silence) else 1)

    def _busy(self, silence: float) -> bool:
        """Whether the server's processes have computed since they went quiet."""
        since, before = self._quiet or (silence, 0.0)
        computed = self._server.cpu_seconds() - before
        return computed > BUSY_SHARE * max(silence - since, TICK_SECONDS)

    def _weigh(self) -> None:
        memory = self._server.memory()
        if memory is not None:
            self.peak_memory = max(memory, self.peak_memory or 0)

    def _lose(self, why: str) -> None:
        self.lost = why
        self._client.abort(why)
