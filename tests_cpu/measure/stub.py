"""A server that answers at once, in ways that it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

META = {
    "prompt_tokens": 8,
    "cached_tokens": 3,
    "completion_tokens": 9,
    "spec_verify_ct": 4,
    "spec_num_correct_drafts": 4,
    "spec_num_proposed_drafts": 12,
    "spec_correct_drafts_histogram": [2, 1, 0, 1],
    "spec_accept_length": 9 / 4,
    "spec_accept_rate": 4 / 12,
}
Reply = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    """One connection, kept open as SGLang's own server does."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = (
        True  # else each answer waits for the client's delayed acknowledgement
    )
    reply: ClassVar[Reply]
    seen: ClassVar[list[tuple[str, dict[str, Any]]]]

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        self.seen.append((self.path, asked))
        type(self).reply(self, asked)

    def whole(self, data: Any, status: int = 200) -> None:
        """Send one body."""
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def events(self, *events: Any, end: bool = True) -> None:
        """Send server-sent events in chunks; without `end` the connection breaks."""
        self.stream(events, end=end)

    def stream(self, events: Iterable[Any], *, end: bool = True) -> None:
        """Send events as they come."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            text = event if isinstance(event, str) else json.dumps(event)
            data = f"data: {text}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        if end:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.close_connection = True


def generate(handler: Handler, asked: dict[str, Any]) -> None:
    """Answer as a healthy server does."""
    if asked.get("stream"):
        chunks = ({"text": "x", "meta_info": META | {"completion_tokens": n}} for n in (1, 4, 9))
        handler.events(*chunks, "[DONE]")
    else:
        handler.whole({"text": "x", "meta_info": META})


@contextmanager
def serve(reply: Reply = generate) -> Iterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """Yield the address and what was asked."""
    seen: list[tuple[str, dict[str, Any]]] = []
    kind = type("Told", (Handler,), {"reply": reply, "seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", seen
        finally:
            server.shutdown()
            thread.join()
