"""Requests in flight that are broken off, and how long a server has been silent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from eagle3_checks.measure.client import Client, RequestFailed
from eagle3_checks.measure.prompts import Prompt
from tests_cpu.measure.stub import Handler, generate, serve

PROMPT = Prompt(id="p", set="s", text="x")
pytestmark = pytest.mark.timeout(30)


class Held:
    """Requests that reach a server and are held there until they are let go."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self.go = threading.Event()

    def __call__(self, handler: Handler, asked: dict[str, Any]) -> None:
        self.reached.release()
        self.go.wait(20)
        generate(handler, asked)


def halfway(held: Held) -> Callable[[Handler, dict[str, Any]], None]:
    """Answer that closes its connection, and stops in the middle: the socket is the answer's."""

    def reply(handler: Handler, _: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.send_header("Content-Length", "999")
        handler.end_headers()
        handler.wfile.write(b'{"te')
        handler.wfile.flush()
        held.reached.release()
        held.go.wait(20)
        handler.close_connection = True

    return reply


def ask(client: Client, *, stream: bool = False) -> None:
    client.generate(PROMPT, max_new_tokens=8, stream=stream)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("half", [False, True])
def test_requests_in_flight_are_broken_off(*, stream: bool, half: bool) -> None:
    held = Held()
    with serve(halfway(held) if half else held) as (url, _), ThreadPoolExecutor(3) as pool:
        client = Client(url, timeout=20)
        waiting: list[Future[None]] = [pool.submit(ask, client, stream=stream) for _ in range(3)]
        for _ in waiting:
            assert held.reached.acquire(timeout=10)
        began = time.monotonic()
        client.abort("the server hangs")
        for future in waiting:
            with pytest.raises(RequestFailed, match="the server hangs"):
                future.result(10)
        assert time.monotonic() - began < 5
        with pytest.raises(RequestFailed, match="the server hangs"):
            ask(client)
        held.go.set()
        client.close()


def test_silence_begins_with_a_request_and_ends_with_its_answer() -> None:
    held = Held()
    with serve(held) as (url, _), ThreadPoolExecutor(1) as pool:
        client = Client(url, timeout=20)
        assert client.silence() == 0
        waiting = pool.submit(ask, client)
        assert held.reached.acquire(timeout=10)
        first = client.silence()
        assert client.silence() > first > 0
        client.heard()
        assert client.silence() < 5
        held.go.set()
        waiting.result(10)
        assert client.silence() == 0
        client.close()


def test_requests_and_prompt_tokens_are_counted() -> None:
    with serve() as (url, _):
        client = Client(url, timeout=5)
        ask(client)
        ask(client, stream=True)
        assert (client.requests, client.prompt_tokens) == (2, 16)
        client.close()
    with serve(lambda handler, _: handler.whole({}, 500)) as (url, _):
        client = Client(url, timeout=5)
        with pytest.raises(RequestFailed):
            ask(client)
        assert (client.requests, client.prompt_tokens) == (1, None)
        client.close()
