"""Kept-open HTTP connections to one server, cheap enough not to be what is measured.

http.client, since a request through it costs a quarter of the CPU time that requests takes for it
(benchmarks/client.py): at 64 streams the client must not be the bottleneck.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from urllib.parse import urlsplit

from eagle3_checks.server.http import ca_file

CONNECT_SECONDS = 5.0
"""A server that lives takes a connection at once, however busy it is."""
ERROR_TEXT = 300
CHUNK = 1 << 16
IDLE_SECONDS = 2.0
"""A connection that rested longer is not used again: SGLang's server closes them after 5 seconds,
and a request sent at that moment would fail for no fault of the server."""


class TransportError(RuntimeError):
    """A request that brought no answer; the message says why."""

    def __init__(self, message: str, status: int = 0) -> None:
        """`status` is that of HTTP, 0 where no answer came at all."""
        super().__init__(message)
        self.status = status


class Transport:
    """Posts to one server; usable from many threads, one connection for each request in flight."""

    def __init__(self, url: str, *, api_key: str = "", timeout: float = 300.0) -> None:
        """`timeout` is the longest silence of the server, in seconds."""
        parts = urlsplit(url)
        self._secure: ssl.SSLContext | None = None
        if parts.scheme == "https":
            self._secure = ssl.create_default_context(cafile=ca_file() or None)
        self._host = parts.hostname or ""
        self._port = parts.port
        self._prefix = parts.path.rstrip("/")
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._idle: deque[tuple[float, http.client.HTTPConnection]] = deque()
        self._lock = threading.Lock()
        # The socket by itself: a connection gives it up to an answer that ends with it.
        self._active: dict[http.client.HTTPConnection, socket.socket | None] = {}
        self._heard = 0.0
        self._aborted = ""
        self.requests = 0
        """Requests sent so far, answered or not."""

    def silence(self) -> float:
        """Return the seconds since the server was last heard; 0 where no request is in flight."""
        with self._lock:
            return time.monotonic() - self._heard if self._active else 0.0

    def heard(self) -> None:
        """Note that the server has shown a sign of life."""
        self._heard = time.monotonic()

    def abort(self, why: str) -> None:
        """Break all requests off, and fail those to come with this reason."""
        with self._lock:
            self._aborted = why
            sockets = [open_socket for open_socket in self._active.values() if open_socket]
        for open_socket in sockets:
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            while self._idle:
                self._idle.pop()[1].close()

    def get(self, path: str) -> bytes:
        """Return the body of an answer. Raises TransportError."""
        with self._request("GET", path, None) as response:
            return response.read()

    def post(self, path: str, body: bytes) -> bytes:
        """Return the body of an answer. Raises TransportError."""
        with self._request("POST", path, body) as response:
            return response.read()

    def events(self, path: str, body: bytes) -> Iterator[tuple[float, bytes]]:
        """Yield each server-sent event with the time it arrived (time.perf_counter).

        Raises TransportError, also where the stream breaks off.
        """
        with self._request("POST", path, body) as response:
            rest = b""
            while data := response.read1(CHUNK):
                now = time.perf_counter()
                self.heard()
                *whole, rest = (rest + data).split(b"\n\n")
                for event in whole:
                    if event.startswith(b"data:"):
                        yield now, event[5:].strip()
            self._refuse_aborted()  # an answer that is broken off ends like any other

    @contextmanager
    def _request(
        self, method: str, path: str, body: bytes | None
    ) -> Iterator[http.client.HTTPResponse]:
        connection = self._take()
        keep = False
        try:
            self._refuse_aborted()
            if connection.sock is None:
                self._connect(connection)
                self._refuse_aborted()  # what `abort` could not see yet
            connection.request(method, self._prefix + path, body, self._headers)
            # Closed here: a connection that is to close gives its answer up.
            with connection.getresponse() as response:
                self.heard()
                if response.status != HTTPStatus.OK:
                    shown = response.read(ERROR_TEXT).decode("utf-8", "replace")
                    message = f"{path} answered {response.status}: {shown}"
                    raise TransportError(message, response.status)
                yield response
                keep = response.isclosed() and not response.will_close
        except (OSError, http.client.HTTPException) as error:
            if self._aborted:
                raise TransportError(self._aborted) from error
            raise TransportError(f"{path}: {type(error).__name__}: {error}") from error
        finally:
            self._give_back(connection, keep=keep)

    def _refuse_aborted(self) -> None:
        if self._aborted:
            raise TransportError(self._aborted)

    def _take(self) -> http.client.HTTPConnection:
        """Return an idle connection that the server has not closed meanwhile, or a new one."""
        while True:
            with self._lock:
                since, connection = self._idle.pop() if self._idle else (0.0, self._new())
            rested = time.monotonic() - since
            if not since or (
                connection.sock and rested < IDLE_SECONDS and not _readable(connection)
            ):
                return self._started(connection)
            connection.close()

    def _new(self) -> http.client.HTTPConnection:
        limit = min(self._timeout, CONNECT_SECONDS)
        if self._secure is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=limit)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=limit, context=self._secure
        )

    def _started(self, connection: http.client.HTTPConnection) -> http.client.HTTPConnection:
        """Count a request; the silence of a server begins with what it is asked."""
        with self._lock:
            if not self._active:
                self._heard = time.monotonic()
            self._active[connection] = connection.sock
            self.requests += 1
        return connection

    def _connect(self, connection: http.client.HTTPConnection) -> None:
        connection.connect()
        connection.sock.settimeout(self._timeout)
        with self._lock:
            self._active[connection] = connection.sock

    def _give_back(self, connection: http.client.HTTPConnection, *, keep: bool) -> None:
        with self._lock:
            self._active.pop(connection, None)
        if not keep:
            connection.close()
            return
        with self._lock:
            self._idle.append((time.monotonic(), connection))


def _readable(connection: http.client.HTTPConnection) -> bool:
    """Whether something waits on an idle connection: its end, or what no request asked for."""
    waiting = select.poll()
    waiting.register(connection.sock, select.POLLIN)
    return bool(waiting.poll(0))
