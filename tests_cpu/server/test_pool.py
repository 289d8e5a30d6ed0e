"""The KV pool after the load, and what servers of several releases tell of theirs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from eagle3_checks.facts import PoolSeen
from eagle3_checks.server import pool
from eagle3_checks.server.http import Endpoint


class Handler(BaseHTTPRequestHandler):
    """Answers each path from a script; the last answer stays."""

    script: ClassVar[dict[str, list[tuple[int, Any]]]]

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        answers = self.script.get(self.path.partition("?")[0], [(404, None)])
        status, data = answers.pop(0) if len(answers) > 1 else answers[0]
        body = data.encode() if isinstance(data, str) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setattr(pool, "FLUSH_SECONDS", 1.0)
    Handler.script = {"/flush_cache": [(200, "Cache flushed.")]}
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with Endpoint(f"http://127.0.0.1:{server.server_address[1]}") as made:
            yield made
        server.shutdown()
        thread.join()


def loads(*used: int) -> tuple[int, Any]:
    return 200, {"loads": [{"num_used_tokens": n, "max_total_num_tokens": 100} for n in used]}


def test_figures_that_are_not_new_yet_are_asked_for_again(endpoint: Endpoint) -> None:
    Handler.script["/v1/loads"] = [loads(40, 0), loads(7, 0), loads(0, 0)]
    assert pool.emptied(endpoint) == PoolSeen(used=0, capacity=200)


def test_what_stays_in_use_is_told_at_the_limit(endpoint: Endpoint) -> None:
    Handler.script["/v1/loads"] = [loads(7, 3)]
    assert pool.emptied(endpoint) == PoolSeen(used=10, capacity=200)


def test_older_releases_tell_it_elsewhere(endpoint: Endpoint) -> None:
    Handler.script["/get_load"] = [(200, [{"dp_rank": 0, "num_reqs": 0, "num_tokens": 0}])]
    assert pool.emptied(endpoint) == PoolSeen(used=0)


def test_a_release_that_does_not_tell(endpoint: Endpoint) -> None:
    assert pool.emptied(endpoint) == PoolSeen()


def test_a_flush_that_is_refused(endpoint: Endpoint) -> None:
    Handler.script["/flush_cache"] = [(400, "Flush cache failed.")]
    refused = "POST /flush_cache answered 400: Flush cache failed."
    assert pool.emptied(endpoint) == PoolSeen(refused=refused)


def test_counters_are_summed_over_their_labels(endpoint: Endpoint) -> None:
    text = (
        "# TYPE sglang:num_requests_total counter\n"
        'sglang:num_requests_total{engine="0"} 3.0\n'
        'sglang:num_requests_total{engine="1"} 4.0\n'
        'sglang:num_requests_total_created{engine="0"} 1.7e9\n'
    )
    assert endpoint.counter("sglang:num_requests_total") is None
    Handler.script["/metrics"] = [(200, text)]
    assert endpoint.counter("sglang:num_requests_total") == 7.0
    assert endpoint.counter("sglang:other") is None


@pytest.mark.parametrize(
    ("answer", "works"),
    [((200, ""), True), ((503, ""), False), ((404, ""), True)],
    ids=["answers", "is silent", "is older"],
)
def test_whether_the_schedulers_work(
    endpoint: Endpoint, answer: tuple[int, str], *, works: bool
) -> None:
    Handler.script["/health_generate"] = [answer]
    Handler.script["/generate"] = [(200, {"meta_info": {}})]
    assert endpoint.working(5.0) is works


def test_a_server_that_is_gone_does_not_work() -> None:
    with Endpoint("http://127.0.0.1:9") as nobody:
        assert not nobody.working(1.0)
