"""A stand-in for a served pair that goes wrong as it is told, at a point of its life it is told.

Everything else is tests_cpu/plugin/fake_sglang.py: it speaks SGLang's HTTP and accepts drafts.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import struct
import sys
import threading
import time
from http.server import ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests_cpu.plugin import fake_sglang

SLOW_SECONDS = 1.8
BLOCKING = ("hangs", "spins", "compiles")
"""Faults in which the scheduler answers nobody."""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add = parser.add_argument
    add("--log", type=Path, help="logged first, as far as the start gets")
    add("--ends", type=int, help="exit with this code after the log")
    add("--stuck", action="store_true", help="do nothing after the log")
    add("--flood", action="store_true", help="log the same line again and again, and never listen")
    add("--warming", type=float, default=0.0, help="seconds in which /health answers 503")
    add("--health", type=int, default=200, help="status of /health from then on")
    add("--fault", default="", help="what happens to /generate")
    add("--first", type=int, default=3, help="request from which on it happens")
    add("--every", type=int, default=1)
    add("--deaf", action="store_true", help="pass over SIGTERM")
    add("--family", action="store_true", help="start a child in a session of its own")
    add("--leak", type=int, default=0, help="tokens that stay in use")
    add("--flush", type=int, default=200, help="status of /flush_cache")
    add("--foreign", type=int, default=0, help="requests of others that are counted")
    add("--swapped", action="store_true", help="another drafter from that request on")
    add("--drafter", default="/models/drafter")
    return parser.parse_known_args()[0]


class Handler(fake_sglang.Handler):
    told: argparse.Namespace
    began = time.monotonic()
    generated = 0
    lock = threading.Lock()

    def do_GET(self) -> None:  # noqa: N802 - the server calls it so
        told, path = self.told, self.path.partition("?")[0]
        if path == "/health":
            warm = time.monotonic() - self.began >= told.warming
            self.answer(told.health if warm else 503)
        elif path == "/health_generate" and told.fault in BLOCKING and self.faulty():
            threading.Event().wait()
        elif path == "/v1/loads":
            load = {"num_used_tokens": told.leak, "max_total_num_tokens": 8192}
            self.answer(200, {"loads": [load]})
        elif path == "/metrics":
            count = max(Handler.generated - 1, 0) + told.foreign * self.faulty()
            self.answer_text(f'sglang:num_requests_total{{model_name="x"}} {count}\n')
        elif path == "/server_info":
            swapped = told.swapped and self.faulty()
            self.answer(
                200,
                {
                    "version": "0.5.23",
                    "speculative_algorithm": self.given.speculative_algorithm or None,
                    "speculative_draft_model_path": "/models/other" if swapped else told.drafter,
                },
            )
        else:
            super().do_GET()

    def answer_text(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def faulty(self) -> bool:
        return bool(Handler.generated >= self.told.first)

    def do_POST(self) -> None:  # noqa: N802 - likewise
        if self.path.startswith("/flush_cache"):
            self.answer(self.told.flush)
            return
        with self.lock:
            Handler.generated += 1
            number = Handler.generated
        if number < self.told.first or (number - self.told.first) % self.told.every:
            super().do_POST()
            return
        kind, _, value = self.told.fault.partition(":")
        getattr(self, f"fault_{kind or 'none'}")(value)

    def fault_none(self, _: str) -> None:
        super().do_POST()

    def fault_status(self, value: str) -> None:
        self.answer(int(value), {"error": "told to fail"})

    def fault_reset(self, _: str) -> None:
        """Reset the connection without an answer."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def fault_half(self, _: str) -> None:
        self.raw(b'{"text": "x", "meta_in', length=4000)

    def fault_garbage(self, _: str) -> None:
        self.raw(b"<html>a proxy's page</html>")

    def fault_empty(self, _: str) -> None:
        self.raw(b'{"text": "x"}')

    def fault_list(self, _: str) -> None:
        self.raw(b"[1, 2]")

    def raw(self, body: bytes, length: int = 0) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(length or len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def fault_late(self, _: str) -> None:
        """Let requests that come later be answered first."""
        threading.Event().wait(0.3 if Handler.generated % 2 else 0.0)
        super().do_POST()

    def fault_slow(self, _: str) -> None:
        threading.Event().wait(SLOW_SECONDS)
        super().do_POST()

    def fault_hangs(self, _: str) -> None:
        threading.Event().wait()

    def fault_spins(self, _: str) -> None:
        while True:
            pass

    def fault_compiles(self, _: str) -> None:
        """Compute, answer nobody meanwhile, and then go on."""
        with self.lock:
            end = time.monotonic() + SLOW_SECONDS
            while time.monotonic() < end:
                pass
        super().do_POST()

    def fault_stops(self, _: str) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def fault_dies(self, value: str) -> None:
        os._exit(int(value or 1))

    def fault_killed(self, _: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def fault_crashes(self, _: str) -> None:
        sys.stderr.write(
            "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
        )
        sys.stderr.flush()
        os._exit(1)

    def fault_silent(self, _: str) -> None:
        """Answer without a single count of speculation."""
        self.answer(200, {"text": "x", "meta_info": {"prompt_tokens": 8, "completion_tokens": 8}})


def start(told: argparse.Namespace) -> int | None:
    """Log the start; return the exit code of one that fails."""
    if told.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if told.family and os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Event().wait()
    if told.log:
        sys.stdout.write(told.log.read_text(encoding="utf-8"))
        sys.stdout.flush()
    while told.flood:
        sys.stdout.write("[2026-12-01 04:47:50 TP0] a warning that comes again and again\n" * 1000)
        sys.stdout.flush()
        threading.Event().wait(0.01)
    if told.stuck:
        threading.Event().wait()
    return None if told.ends is None else int(told.ends)


def main() -> int:
    told, given = parse(), fake_sglang.parse()
    code = start(told)
    if code is not None:
        return code
    if not given.no_probe:
        fake_sglang.write_probe(fake_sglang.WIDTH)
    Handler.told = told
    fake_sglang.Handler.given = given
    with ThreadingHTTPServer(("127.0.0.1", given.port), Handler) as server:
        server.daemon_threads = True
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
