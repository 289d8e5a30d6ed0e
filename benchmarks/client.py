"""Requests per CPU second of this suite's client and of ``sglang.bench_serving``.

Both send the same load, 64 streams, to a stub that answers at once, so that the client is all there
is to be measured. Each runs in a process of its own, with few requests and with many: the
difference leaves out what starting costs. Run from the repository: ``python benchmarks/client.py``.
"""

from __future__ import annotations

import sys

# statistics.py here would be taken for the library's module of that name.
sys.path[:] = [p for p in sys.path if not p.endswith("/benchmarks")]

import argparse
import asyncio
import json
import os
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from eagle3_checks.measure.client import Client, send_all
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.shipped import shipped

CONCURRENCY = 64
TOKENS = 8
CHUNKS = 4
WANTED = 2.0
META = {
    "id": "0",
    "finish_reason": {"type": "length", "length": TOKENS},
    "prompt_tokens": 32,
    "cached_tokens": 0,
    "e2e_latency": 0.01,
    "spec_verify_ct": CHUNKS,
    "spec_num_correct_drafts": TOKENS - 1 - CHUNKS,
    "spec_num_proposed_drafts": 3 * CHUNKS,
    "spec_accept_length": TOKENS / CHUNKS,
    "spec_accept_rate": 0.25,
    "spec_correct_drafts_histogram": [2, 1, 1, 0],
}


def main() -> int:
    """Compare the clients, or be one of the processes that takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--few", type=int, default=256)
    parser.add_argument("--many", type=int, default=4096)
    parser.add_argument("--stub", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--send", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stub is not None:
        asyncio.run(stub(given.stub))
        return 0
    if given.send is not None:
        return send(given.port, given.send)
    return compare(given.few, given.many)


def compare(few: int, many: int) -> int:
    """Print requests per CPU second of both clients; 0 where this one has twice as many."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    own = [sys.executable, __file__, "--port", str(port)]
    served = subprocess.Popen([*own[:2], "--stub", str(port)])
    try:
        rates = {}
        commands: dict[str, Callable[[int], list[str]]] = {
            "eagle3-checks": lambda n: [*own, "--send", str(n)],
            "sglang.bench_serving": lambda n: bench(port, n),
        }
        for name, command in commands.items():
            seconds = [cpu_seconds(command(number)) for number in (few, many)]
            rates[name] = (many - few) / (seconds[1] - seconds[0])
            print(
                f"{name:22}{rates[name]:8.0f} requests a CPU second   ({few} requests "
                f"{seconds[0]:.2f} s, {many} requests {seconds[1]:.2f} s)"
            )
    finally:
        served.kill()
        served.wait()
    ratio = rates["eagle3-checks"] / rates["sglang.bench_serving"]
    print(f"ratio {ratio:.1f} (at least {WANTED:.0f}); {CONCURRENCY} streams, {CHUNKS} chunks each")
    return 0 if ratio >= WANTED else 1


def bench(port: int, number: int) -> list[str]:
    """Return SGLang's own benchmark with the same load."""
    return [
        *(sys.executable, "-m", "sglang.bench_serving", "--backend", "sglang"),
        *("--host", "127.0.0.1", "--port", str(port), "--dataset-name", "random-ids"),
        *("--model", "stub", "--tokenizer", str(shipped("fixtures", "tiny", "target"))),
        *("--random-input-len", "32", "--random-output-len", str(TOKENS)),
        *("--random-range-ratio", "1", "--num-prompts", str(number)),
        *("--max-concurrency", str(CONCURRENCY), "--disable-tqdm", "--output-file", os.devnull),
    ]


def send(port: int, number: int) -> int:
    """Send the load with this suite's client."""
    client = Client(f"http://127.0.0.1:{port}")
    prompts = [Prompt(id=str(n), set="s", text=f"prompt {n} " + "x " * 32) for n in range(number)]
    answers, failures = send_all(
        lambda p: client.generate(p, max_new_tokens=TOKENS, ignore_eos=True, stream=True),
        prompts,
        concurrency=CONCURRENCY,
    )
    client.close()
    whole = all(len(answer.gaps) == CHUNKS - 1 for answer in answers)
    return 0 if len(answers) == number and not failures and whole else 1


def cpu_seconds(command: Sequence[str]) -> float:
    """Run a command and return the CPU seconds that it took. Raises RuntimeError."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if process.stderr is None:
        raise RuntimeError("no pipe")
    errors = process.stderr.read().decode("utf-8", "replace")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}\n{errors[-2000:]}")
    return used.ru_utime + used.ru_stime


async def stub(port: int) -> None:
    """Answer every request at once, as SGLang does a streamed one."""
    server = await asyncio.start_server(_connection, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _events() -> bytes:
    parts = []
    for number in range(1, CHUNKS + 1):
        meta = META | {"completion_tokens": TOKENS * number // CHUNKS}
        event = json.dumps({"text": "some words " * number, "meta_info": meta})
        parts.append(_chunk(b"data: " + event.encode() + b"\n\n"))
    return b"".join(parts) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


_STREAM = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n" + _events()
)
_OBJECT = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: application/json\r\n"
    b"content-length: 2\r\n\r\n{}"
)


async def _connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
            if length:
                await reader.readexactly(int(length))
            writer.write(_STREAM if head.startswith(b"post /generate") else _OBJECT)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


if __name__ == "__main__":
    os.chdir(Path(__file__).resolve().parents[1])
    raise SystemExit(main())
