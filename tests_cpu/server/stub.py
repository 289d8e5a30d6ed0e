"""A server that speaks as much of SGLang's HTTP as starting and describing one takes.

Run with SGLang's own flags, which it ignores but for --host, --port and --api-key; what it is to
do wrong comes before them (see the parser). It starts in a tenth of a second and needs no package.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--api-key", default="")
    parser.add_argument("--warming", type=int, default=2, help="health requests answered 503")
    parser.add_argument("--verify-steps", type=int, default=4, help="-1 leaves the count out")
    parser.add_argument("--generate-status", type=int, default=200)
    parser.add_argument("--generate-hangs", action="store_true")
    parser.add_argument("--exit-code", type=int, help="log 60 lines and exit before HTTP is up")
    parser.add_argument("--log", type=Path, help="a file whose text is logged first")
    parser.add_argument("--ignore-sigterm", action="store_true")
    parser.add_argument("--pids", type=Path, help="spawn a family, write its pids here")
    parser.add_argument("--shared-memory", type=Path)
    parser.add_argument("--old-paths", action="store_true", help="only the /get_* paths")
    return parser.parse_known_args()[0]


def log(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def spawn_family(pids: Path) -> None:
    """Start a child, and a grandchild in its own session whose parent is gone at once.

    Both pass over SIGTERM. Writes the three pids to a file or FIFO.
    """
    server = os.getpid()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Event().wait()
    between = os.fork()
    if between == 0:
        os.setsid()
        grandchild = os.fork()
        if grandchild == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            threading.Event().wait()
        pids.write_text(json.dumps([server, child, grandchild]) + "\n", encoding="utf-8")
        os._exit(0)
    os.waitpid(between, 0)


class Handler(BaseHTTPRequestHandler):
    given: argparse.Namespace
    health_requests = 0

    def answer(self, status: int, data: Any = None) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def authorized(self) -> bool:
        key = self.given.api_key
        return not key or self.headers.get("Authorization") == f"Bearer {key}"

    def do_GET(self) -> None:
        prefix = "get_" if self.given.old_paths else ""
        if self.path == "/health":
            Handler.health_requests += 1
            self.answer(503 if Handler.health_requests <= self.given.warming else 200)
        elif not self.authorized():
            self.answer(401, {"error": "Unauthorized"})
        elif self.path == f"/{prefix}server_info":
            self.answer(
                200,
                {
                    "version": "0.5.23",
                    "api_key": self.given.api_key or None,
                    "hf_token": "hf_abcdefghijklmnop0123",
                    "tokenizer_path": "/models/target",
                    "max_total_tokens": 8192,
                    "launch_command": " ".join(sys.argv),
                    "internal_states": [{"speculative_algorithm": "EAGLE3"}],
                },
            )
        elif self.path == f"/{prefix}model_info":
            self.answer(200, {"model_path": "/models/target"})
        else:
            self.answer(404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.authorized():
            self.answer(401, {"error": "Unauthorized"})
        elif self.given.generate_hangs:
            threading.Event().wait()
        elif self.given.generate_status != 200:
            key = self.headers.get("Authorization")
            self.answer(self.given.generate_status, {"error": f"stub refuses {key}"})
        else:
            tokens = body["sampling_params"]["max_new_tokens"]
            meta = {"completion_tokens": tokens, "prompt_tokens": len(body["input_ids"])}
            if self.given.verify_steps >= 0:
                meta["spec_verify_ct"] = self.given.verify_steps
            self.answer(200, {"text": "", "meta_info": meta})


def main() -> int:
    given = parse()
    if given.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if given.log:
        log(given.log.read_text(encoding="utf-8"))
    if given.exit_code is not None:
        for number in range(60):
            log(f"line {number} of the log\n")
        return int(given.exit_code)
    if given.shared_memory:
        handle = given.shared_memory.open("wb")  # kept open until the process ends
        handle.write(b"0" * 16)
        handle.flush()
    if given.pids:
        spawn_family(given.pids)
    Handler.given = given
    with ThreadingHTTPServer((given.host, given.port), Handler) as server:
        log(f"Uvicorn running on http://{given.host}:{given.port}\n")
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
