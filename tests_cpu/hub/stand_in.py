"""A stand-in for the hub on loopback: the few endpoints that reading a checkpoint takes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_privateStandInToken"


@dataclass
class Served:
    """One request and what was sent for it."""

    path: str
    span: str
    body: int
    token: str
    host: str


@dataclass
class StandIn:
    """What the stand-in holds, how it misbehaves, and what it served."""

    files: dict[str, bytes] = field(default_factory=dict)
    private: bool = False
    gated: bool = False
    behaviour: str = ""
    """One of those that `_Handler` knows."""
    sizes_told: bool = True
    served: list[Served] = field(default_factory=list)
    url: str = ""
    cdn: str = ""

    def bytes_of(self, file: str) -> int:
        """Sum of the body bytes sent for a file, whichever host sent them."""
        return sum(s.body for s in self.served if s.path.endswith(f"/{file}"))


@contextmanager
def running(files: Mapping[str, bytes]) -> Iterator[StandIn]:
    """Run a stand-in and its content host until the block ends."""
    state = StandIn(files=dict(files))
    servers = [
        ThreadingHTTPServer(("127.0.0.1", 0), _handler(state, host)) for host in ("hub", "cdn")
    ]
    state.url, state.cdn = (f"http://127.0.0.1:{server.server_port}" for server in servers)
    threads = [threading.Thread(target=s.serve_forever, args=(0.02,)) for s in servers]
    for thread in threads:
        thread.start()
    try:
        yield state
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()


def _handler(state: StandIn, host: str) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        hub = state
        here = host

    return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 5
    hub: StandIn
    here: str

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.sent = 0
        try:
            if self.here == "cdn":
                self._content(path.rpartition("/")[2])
            elif path.startswith("/api/models/"):
                self._info(path.removeprefix("/api/models/"))
            else:
                self._resolve(path.removeprefix("/"))
        except ConnectionError:
            self.close_connection = True
        self.hub.served.append(
            Served(
                path=path,
                span=self.headers.get("Range", ""),
                body=self.sent,
                token=self.headers.get("Authorization", ""),
                host=self.here,
            )
        )

    def _info(self, path: str) -> None:
        name, _, revision = path.partition("/revision/")
        if self.hub.behaviour == "login page":
            self._send(200, b"<html>", {"Content-Type": "text/html"})
        elif self.hub.behaviour.isdigit():
            self._send(int(self.hub.behaviour), b"")
        elif self.hub.behaviour == "bad token":
            self._send(401, b"", {"X-Error-Message": "Invalid credentials in Authorization header"})
        elif name != "org/drafter" or (self.hub.private and not self._known()):
            # The hub does not tell a private repository from none.
            self._refuse(404 if self._known() else 401, "RepoNotFound")
        elif revision not in ("", "main", "v1", "refs/pr/2"):
            self._refuse(404, "RevisionNotFound")
        else:
            siblings = [self._sibling(file, len(data)) for file, data in self.hub.files.items()]
            info = {"id": name, "sha": COMMIT, "siblings": siblings}
            self._send(200, json.dumps(info).encode(), {"Content-Type": "application/json"})

    def _sibling(self, file: str, size: int) -> dict[str, Any]:
        return {"rfilename": file, **({"size": size} if self.hub.sizes_told else {})}

    def _resolve(self, path: str) -> None:
        name, _, file = path.partition(f"/resolve/{COMMIT}/")
        if name != "org/drafter" or file not in self.hub.files:
            self._refuse(404, "EntryNotFound")
        elif self.hub.gated and not self._known():
            self._refuse(401, "GatedRepo")
        elif file.endswith(".safetensors"):
            self._send(302, b"", {"Location": f"{self.hub.cdn}/blob/{file}"})
        else:
            self._content(file)

    def _content(self, file: str) -> None:
        data = self.hub.files[file]
        span = self.headers.get("Range")
        behaviour = self.hub.behaviour if file.endswith(".safetensors") else ""
        if behaviour == "silent":
            time.sleep(0.6)  # longer than the test's time-out
        if span is None or behaviour == "no ranges":
            self._send(200, data)
            return
        begin, end = (int(n) for n in span.removeprefix("bytes=").split("-"))
        if begin >= len(data):
            self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        begin += behaviour == "another range"
        part = data[begin : end + 1]
        told = {"Content-Range": f"bytes {begin}-{begin + len(part) - 1}/{len(data)}"}
        if behaviour == "breaks off":
            self._send(206, part[: len(part) // 2], told | {"Content-Length": str(len(part))})
            self.close_connection = True
        else:
            self._send(206, part, told)

    def _known(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, b"", {"X-Error-Code": code, "X-Error-Message": "no"})

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)
        self.sent = len(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""
