"""What the rest of the suite may ask of a server, launched or attached."""

from __future__ import annotations

from typing import Any, Protocol

from eagle3_checks.facts import ServerSeen, Wiring


class Server(Protocol):
    """A ready server."""

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

    def alive(self) -> bool:
        """Whether the server still runs."""
        ...

    def stop(self) -> None:
        """End a launched server and everything it started; leave an attached one alone."""
        ...
