"""What the rest of the suite may ask of a server, launched or attached."""

from __future__ import annotations

from typing import Any, Protocol

from eagle3_checks.facts import PoolSeen, ServerSeen, Wiring
from eagle3_checks.server.http import Endpoint


class Server(Protocol):
    """A ready server."""

    @property
    def launched(self) -> bool:
        """Whether it is a server of our own, started for this run."""
        ...

    @property
    def url(self) -> str:
        """Base address, without a trailing slash."""
        ...

    @property
    def api_key(self) -> str:
        """Key to send as a Bearer token, or ''; never to be printed."""
        ...

    def info(self) -> dict[str, Any]:
        """Return ``/server_info`` as it is now, with secrets masked."""
        ...

    def seen(self) -> ServerSeen:
        """Return what the server says of itself, with secrets masked."""
        ...

    def wiring(self) -> Wiring | None:
        """Return what the probe has seen so far; None without a probe (attached servers)."""
        ...

    @property
    def endpoint(self) -> Endpoint:
        """The server's HTTP interface, for requests that measure nothing."""
        ...

    def alive(self) -> bool:
        """Whether the server still runs; an attached one is asked."""
        ...

    def changed(self) -> tuple[str, ...]:
        """Say what of the server became another since it was ready; empty for a launched one."""
        ...

    def traffic(self) -> dict[str, float]:
        """Return what an attached server has counted, by unit; empty for a launched one."""
        ...

    def ended(self) -> bool:
        """Whether the server is known to have ended, without asking it."""
        ...

    def memory(self) -> int | None:
        """Return the resident memory of the server's processes in bytes; None if unseen."""
        ...

    def cpu_seconds(self) -> float:
        """Return the CPU time of the server's processes; 0 if unseen."""
        ...

    def clues(self, *, hung: bool) -> tuple[str, ...]:
        """Return why a server may have been lost, from its log, and where a hung one stands."""
        ...

    def pool(self) -> PoolSeen:
        """Empty the prefix cache and return what is still in use; only on a server of our own."""
        ...

    def stop(self) -> None:
        """End a launched server and everything it started; leave an attached one alone."""
        ...
