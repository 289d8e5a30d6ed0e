"""Ports: a free one, kept from others until the server takes it."""

from __future__ import annotations

import contextlib
import errno
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

_LISTEN = "0A"


def listeners(port: int) -> set[int]:
    """Return the processes that listen on a TCP port, as far as this user may see them."""
    inodes: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    found: set[int] = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                if any(str(fd.readlink()) in inodes for fd in (process / "fd").iterdir()):
                    found.add(int(process.name))
    return found


class PortTakenError(RuntimeError):
    """The address or port that the profile names cannot be used."""


def _told(error: OSError, host: str, port: int) -> str:
    """Say whether it is the address or the port that cannot be used, and what to do."""
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return (
            f"server.host is {host!r}, which is no address of this machine ({error.strerror}); "
            "write 127.0.0.1 for this machine alone, or 0.0.0.0 for all of its addresses"
        )
    fix = "end the process that holds it, or set server.port = 0 to take a free one"
    if error.errno == errno.EACCES:
        fix = "set server.port to one above 1023, or to 0 to take a free one"
    return f"port {port} on {host} cannot be used: {error.strerror}; {fix}"


class ReservedPort:
    """A port bound without listening, so that nobody is given it while the server loads.

    On Linux a server that sets SO_REUSEADDR, as uvicorn does, may bind it meanwhile; binding
    port 0 does not yield it (socket(7), ip(7)).
    """

    def __init__(self, host: str, port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            # A named port may have connections in TIME_WAIT from the server before, which only
            # the option overlooks; for a port the kernel picks it comes after, since with it the
            # kernel may pick one that is reserved in this same way.
            if port:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.port: int = self._socket.getsockname()[1]
        except OSError as error:
            self._socket.close()
            raise PortTakenError(_told(error, host, port)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the port up."""
        self._socket.close()
