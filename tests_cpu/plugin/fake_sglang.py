"""A stand-in for a served pair: answers with the acceptance it is told, and writes probe facts.

Only for what must be quick or cannot be had from a healthy server; the real one is in serve/.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WIDTH, HIDDEN = 384, 128
TOKEN_SECONDS = 0.02  # no real server is as quick as its client


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--speculative-algorithm", default="")
    parser.add_argument("--histogram", default="4,3,2,1", help="verify steps by correct drafts")
    parser.add_argument("--silent-after", type=int, default=1 << 30, help="no counts after this")
    parser.add_argument("--dies-after", type=int, default=1 << 30, help="exit at this request")
    parser.add_argument("--fails-every", type=int, default=1 << 30, help="500 at each n-th request")
    parser.add_argument("--exits", type=int, help="exit at once with this code")
    parser.add_argument("--flaky", type=Path, help="exit at once where this file is not there yet")
    parser.add_argument("--no-probe", action="store_true")
    parser.add_argument("--crowded", action="store_true", help="speculation pays for one alone")
    parser.add_argument("--says-version", default="0.5.23")
    parser.add_argument("--speculative-draft-model-path", type=Path, default=Path())
    given = parser.parse_known_args()[0]
    own = given.speculative_draft_model_path / "stand-in.txt"  # how this drafter is to behave
    words = own.read_text().split() if own.is_file() else []
    return parser.parse_known_args([*sys.argv[1:], *words])[0]


def write_probe(width: int) -> None:
    """Write what the probe would, for a drafter of one tensor."""
    common = {"v": 1, "pid": os.getpid(), "rank": 0}
    name = "LlamaForCausalLMEagle3"
    fc = {"fc_ran": width == WIDTH, "fc_in": width, "fc_out": HIDDEN, "embed_width": HIDDEN}
    facts: list[dict[str, Any]] = [
        {"fact": "hello", "sglang": "0.5.23"},
        {
            "fact": "load",
            "class": name,
            "tensors": [
                {
                    "name": "fc.weight",
                    "shape": [HIDDEN, WIDTH],
                    "dtype": "float32",
                    "into": ["model.fc.weight"],
                }
            ],
            "parameters": [{"name": "model.fc.weight", "shape": [HIDDEN, WIDTH]}],
            "unwritten": [],
        },
        {"fact": "shared", "class": name, "parameters": ["model.embed_tokens.weight"]},
        {"fact": "capture", "class": "LlamaForCausalLM", "layers": [2, 4, 5]},
        *(
            {"fact": "forward", "class": name, "mode": mode, "width": width, **fc}
            for mode in ("EXTEND", "DRAFT_EXTEND_V2")
        ),
    ]
    path = f"{os.environ['EAGLE3_PROBE_FILE']}.{os.getpid()}.jsonl"
    with open(path, "a", encoding="utf-8") as out:  # noqa: PTH123 - a plain script
        out.writelines(json.dumps(common | fact) + "\n" for fact in facts)


class Handler(BaseHTTPRequestHandler):
    given: argparse.Namespace
    requests = 0
    streaming = 0
    lock = threading.Lock()

    def log_message(self, *args: Any) -> None:
        """Keep the log short."""

    def answer(self, status: int, data: Any = None) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path in ("/health", "/health_generate"):
            self.answer(200)
        elif self.path == "/v1/loads":
            self.answer(200, {"loads": [{"num_used_tokens": 0, "max_total_num_tokens": 8192}]})
        elif self.path == "/server_info":
            algorithm = self.given.speculative_algorithm
            self.answer(
                200, {"version": self.given.says_version, "speculative_algorithm": algorithm}
            )
        else:
            self.answer(404)

    def stream(self, meta: dict[str, Any]) -> None:
        """Send the answer in two chunks, as server-sent events, to the end of the connection."""
        self.send_response(200)
        self.end_headers()
        tokens = meta["completion_tokens"]
        for now in (1, tokens):
            threading.Event().wait(self.seconds())
            event = json.dumps({"text": "x", "meta_info": meta | {"completion_tokens": now}})
            self.wfile.write(f"data: {event}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def seconds(self) -> float:
        """Time of a chunk; where it is crowded, 1 : 2 of no speculation for one, 2 : 1 for two."""
        if not self.given.crowded:
            return TOKEN_SECONDS
        if not self.given.speculative_algorithm:
            return 2 * TOKEN_SECONDS
        return TOKEN_SECONDS if Handler.streaming < 2 else 4 * TOKEN_SECONDS

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if self.path.startswith("/flush_cache"):
            self.answer(200)
            return
        if self.path not in ("/generate", "/v1/chat/completions"):
            self.answer(404, {"message": "this stand-in has nothing else"})
            return
        Handler.requests += 1
        if Handler.requests >= self.given.dies_after:
            os._exit(9)
        if Handler.requests % self.given.fails_every == 0:
            self.answer(500, {"error": "told to fail"})
            return
        told = self.given.histogram if Handler.requests > 1 else "4,3,2,1"  # readiness asks first
        histogram = [int(h) for h in told.split(",")]
        steps, correct = sum(histogram), sum(i * h for i, h in enumerate(histogram))
        meta = {"prompt_tokens": 8, "completion_tokens": max(2, 1 + steps + correct)}
        if Handler.requests <= self.given.silent_after and self.given.speculative_algorithm:
            meta |= {
                "spec_verify_ct": steps,
                "spec_num_correct_drafts": correct,
                "spec_num_proposed_drafts": 3 * steps,
                "spec_correct_drafts_histogram": histogram,  # type: ignore[dict-item]
            }
        if asked.get("stream"):
            with Handler.lock:
                Handler.streaming += 1
            try:
                self.stream(meta)
            finally:
                with Handler.lock:
                    Handler.streaming -= 1
        else:
            self.answer(200, {"text": "x", "meta_info": meta})


def main() -> int:
    given = parse()
    if given.flaky and not given.flaky.exists():
        given.flaky.touch()
        given.exits = 4
    if given.exits is not None:
        sys.stdout.write("RuntimeError: told to exit\n")
        return int(given.exits)
    sys.stdout.write(f"started with {' '.join(sys.argv[1:])}\n")
    sys.stdout.flush()
    if not given.no_probe:
        write_probe(HIDDEN if given.speculative_algorithm == "EAGLE" else WIDTH)
    Handler.given = given
    with ThreadingHTTPServer(("127.0.0.1", given.port), Handler) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
