from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
import requests

from eagle3_checks.server.http import AnswerError, Endpoint
from eagle3_checks.server.phases import Phase
from eagle3_checks.server.readiness import ServerStartError, SpeculationOffError, wait_ready
from eagle3_checks.server.signatures import symptoms

REFUSED = requests.ConnectionError("refused")
SLOW = requests.ReadTimeout("slow")
GOOD = {"spec_verify_ct": 4, "completion_tokens": 8}


class Scripted(Endpoint):
    """Answers from a script; each answer takes a second of the test's own clock."""

    def __init__(self, health: list[Any], probes: list[Any]) -> None:
        super().__init__("http://host:30000")
        self.close()
        self.now = 0.0
        self.timeouts: list[float] = []
        self._health = iter(health)
        self._probes = iter(probes)

    def clock(self) -> float:
        return self.now

    def health(self, timeout: float) -> int:
        status: int = self._next(self._health, timeout)
        return status

    def probe(self, timeout: float) -> dict[str, Any]:
        meta: dict[str, Any] = self._next(self._probes, timeout)
        return meta

    def _next(self, script: Iterator[Any], timeout: float) -> Any:
        answer = next(script)
        self.timeouts.append(timeout)
        self.now += timeout if answer is SLOW else 1.0
        if isinstance(answer, Exception):
            raise answer
        return answer


class Clocked(Event):
    """Waits by moving the script's clock."""

    def __init__(self, endpoint: Scripted, ends_at: float = float("inf")) -> None:
        super().__init__()
        self.endpoint = endpoint
        self.ends_at = ends_at

    def wait(self, timeout: float | None = None) -> bool:
        self.endpoint.now += timeout or 0
        if self.endpoint.now >= self.ends_at:
            self.set()
        return self.is_set()


def wait(endpoint: Scripted, **options: Any) -> float:
    exited = options.pop("exited", None) or Clocked(endpoint)
    limits = {"timeout": 100.0, "request_timeout": 20.0, **options}
    return wait_ready(endpoint, exited=exited, clock=endpoint.clock, **limits)


def test_a_server_is_ready_once_a_request_was_verified() -> None:
    starting = Scripted([REFUSED, REFUSED, 503, 503, 200], [GOOD])
    assert 6 <= wait(starting) < 8


def test_health_alone_is_not_enough() -> None:
    blocked = Scripted([200] * 9, [SLOW] * 9)
    with pytest.raises(ServerStartError, match="not ready after 100 s") as caught:
        wait(blocked)
    assert caught.value.waited_for == (
        "POST http://host:30000/generate, which did not come back within 16 s although /health "
        "is 200"
    )


@pytest.mark.parametrize(
    ("health", "waited_for"),
    [
        (REFUSED, "GET http://host:30000/health, which refuses connections"),
        (503, "GET http://host:30000/health, which answers 503, still warming up"),
        (500, "GET http://host:30000/health, which answers 500"),
        (SLOW, "GET http://host:30000/health, which did not answer within"),
    ],
)
def test_a_deadline_says_what_was_waited_for(health: Any, waited_for: str) -> None:
    with pytest.raises(ServerStartError, match="not ready after 100 s") as caught:
        wait(Scripted([health] * 200, []))
    assert caught.value.waited_for.startswith(waited_for)


def test_no_request_may_take_longer_than_what_is_left() -> None:
    blocked = Scripted([200] * 9, [SLOW] * 9)
    with pytest.raises(ServerStartError):
        wait(blocked, timeout=50.0, request_timeout=1000.0)
    assert max(blocked.timeouts) <= 50.0
    assert blocked.now < 53.0


def test_the_end_of_the_process_is_not_waited_out() -> None:
    dying = Scripted([REFUSED] * 200, [])
    with pytest.raises(ServerStartError, match="ended before it was ready"):
        wait(dying, exited=Clocked(dying, ends_at=10.0))
    assert dying.now < 13.0


@pytest.mark.parametrize(
    ("broken", "then"),
    [
        (requests.ConnectionError("reset"), GOOD),
        (AnswerError("POST /generate answered 503: starting", 503), GOOD),
    ],
)
def test_a_request_that_broke_is_sent_again(broken: Exception, then: dict[str, int]) -> None:
    assert wait(Scripted([200, 200], [broken, then])) > 0


@pytest.mark.parametrize(
    ("health", "probe", "message"),
    [
        (401, None, "answered 401: set EAGLE3_CHECKS_API_KEY"),
        (404, None, "what runs there is not SGLang"),
        (200, AnswerError("answered 401: no", 401), "generate: set EAGLE3_CHECKS_API_KEY"),
        (200, AnswerError("POST /generate answered 400: bad", 400), "refuses to generate: POST"),
    ],
)
def test_a_refusal_is_final(health: int, probe: Any, message: str) -> None:
    refusing = Scripted([health], [probe])
    with pytest.raises(ServerStartError, match=message):
        wait(refusing)
    assert refusing.now <= 2.0


@pytest.mark.parametrize("steps", [0, None, "4"])
def test_no_verify_step_is_no_speculation(steps: Any) -> None:
    meta = {"completion_tokens": 8, "spec_verify_ct": steps}
    with pytest.raises(SpeculationOffError, match="speculation is off: the server generated 8"):
        wait(Scripted([200], [meta]))
    assert wait(Scripted([200], [meta]), speculative=False) > 0


def test_the_first_answer_is_announced_once() -> None:
    calls: list[float] = []
    endpoint = Scripted([REFUSED, 503, 503, 200], [GOOD])
    wait(endpoint, answered=lambda: calls.append(endpoint.now))
    assert len(calls) == 1
    assert 2.0 <= calls[0] < 3.0


def test_an_error_shows_all_that_is_known() -> None:
    error = ServerStartError(
        "the server's process ended",
        exit_code=1,
        phase=Phase.DRAFT_WEIGHTS,
        waited_for="GET /health",
        tail=("one", "two"),
        symptoms=symptoms(["torch.OutOfMemoryError: CUDA out of memory."]),
        log="server.log",
        command=("serve", "--prompt", "two words"),
    )
    assert str(error).splitlines() == [
        "the server's process ended",
        "phase reached: loading the drafter's weights",
        "waited for: GET /health",
        f"likely cause: {error.symptoms[0]}",
        "started with: serve --prompt 'two words'",
        "last 2 lines of server.log:",
        "  one",
        "  two",
    ]


@pytest.mark.parametrize(
    ("tail", "says"),
    [((), "nothing was written to server.log"), (("one",), "end of server.log:")],
)
def test_a_short_log_is_told_as_what_it_is(tail: tuple[str, ...], says: str) -> None:
    assert says in str(ServerStartError("ended", tail=tail, log="server.log")).splitlines()
