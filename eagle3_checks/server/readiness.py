"""When a server is ready: it answers, and a request came back that was verified in speculation.

``/health`` alone is not enough: it was seen green while requests blocked (sgl-project/sglang
#33719), and it says nothing about speculation.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from http import HTTPStatus
from threading import Event

import requests

from eagle3_checks.server.http import AnswerError, Endpoint
from eagle3_checks.server.phases import Phase
from eagle3_checks.server.signatures import Symptom

_FIRST_WAIT, _LONGEST_WAIT = 0.05, 1.0
_HEALTH_SECONDS = 30.0
"""SGLang's own limit for the token that /health generates is 20 s."""
TAIL_LINES = 40
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_SET_KEY = "set EAGLE3_CHECKS_API_KEY"


class ServerStartError(RuntimeError):
    """A server that did not become ready."""

    def __init__(  # noqa: PLR0913 - all that a report shows of it
        self,
        problem: str,
        *,
        exit_code: int | None = None,
        phase: Phase | None = None,
        waited_for: str = "",
        tail: tuple[str, ...] = (),
        symptoms: tuple[Symptom, ...] = (),
        log: str = "",
        command: tuple[str, ...] = (),
        stacks: tuple[str, ...] = (),
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.exit_code = exit_code
        self.phase = phase
        self.waited_for = waited_for
        self.tail = tail
        self.symptoms = symptoms
        self.log = log
        self.command = command
        self.stacks = stacks
        """Where the threads of a stuck server stood, innermost call first."""

    def __str__(self) -> str:
        """Return the problem, the phase reached, likely causes, command and end of the log."""
        parts = [self.problem]
        if self.phase is not None:
            parts.append(f"phase reached: {self.phase}")
        if self.waited_for:
            parts.append(f"waited for: {self.waited_for}")
        parts += [f"likely cause: {symptom}" for symptom in self.symptoms]
        parts += [f"stuck in: {stack}" for stack in self.stacks]
        if self.command:
            parts.append(f"started with: {shlex.join(self.command)}")
        if self.log:
            count = len(self.tail)
            last = f"last {count} lines of {self.log}:" if count > 1 else f"end of {self.log}:"
            parts.append(last if count else f"nothing was written to {self.log}")
        parts += [f"  {line}" for line in self.tail]
        return "\n".join(parts)


class ServerStalledError(ServerStartError):
    """A server whose processes show no sign of life any more."""


class SpeculationOffError(ServerStartError):
    """A server that answers without a single verify step."""


class _NotYetError(Exception):
    """What the server is still waited for."""


def wait_ready(  # noqa: PLR0913 - each a limit or a condition of its own
    endpoint: Endpoint,
    *,
    timeout: float,
    request_timeout: float,
    exited: Event | None = None,
    answered: Callable[[], None] | None = None,
    look: Callable[[], None] | None = None,
    speculative: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> float:
    """Wait until the server is ready and return the seconds it took.

    `timeout` bounds the whole wait, `request_timeout` one request, both in seconds. `exited` is
    set when the server's process ends. `answered` is called once, at the first answer of any
    kind, `look` before each try; both may raise. Raises ServerStartError on exit, deadline or
    refusal (the caller adds what it knows of the process), SpeculationOffError where `speculative`
    is asked for and the request had no verify step.
    """
    began = clock()
    gone = exited or Event()
    pause = _FIRST_WAIT
    waited_for = "the process to be up"
    while not gone.is_set():
        if look is not None:
            look()
        left = timeout - (clock() - began)
        if left <= 0:
            raise ServerStartError(
                f"the server was not ready after {timeout:g} s", waited_for=waited_for
            )
        try:
            status = _health(endpoint, min(left, _HEALTH_SECONDS))
            if answered is not None:
                answered()
                answered = None
            _judge_health(endpoint, status)
            _generate(endpoint, min(left, request_timeout), speculative=speculative)
        except _NotYetError as waiting:
            waited_for = str(waiting)
        else:
            return clock() - began
        gone.wait(min(pause, max(left, 0)))
        pause = min(pause * 1.5, _LONGEST_WAIT)
    raise ServerStartError("the server's process ended before it was ready", waited_for=waited_for)


def _health(endpoint: Endpoint, seconds: float) -> int:
    where = f"GET {endpoint.url}/health"
    try:
        return endpoint.health(seconds)
    except requests.Timeout as error:
        raise _NotYetError(f"{where}, which did not answer within {seconds:.0f} s") from error
    except requests.exceptions.SSLError as error:
        raise ServerStartError(
            f"{where}: its certificate is not trusted; name its authority in SSL_CERT_FILE: {error}"
        ) from error
    except requests.RequestException as error:
        raise _NotYetError(f"{where}, which refuses connections") from error


def _judge_health(endpoint: Endpoint, status: int) -> None:
    where = f"GET {endpoint.url}/health"
    if status in _REFUSED:
        raise ServerStartError(f"{where} answered {status}: {_SET_KEY}")
    if status == HTTPStatus.NOT_FOUND:
        raise ServerStartError(f"{where} answered 404: what runs there is not SGLang")
    if status != HTTPStatus.OK:
        state = ", still warming up" if status == HTTPStatus.SERVICE_UNAVAILABLE else ""
        raise _NotYetError(f"{where}, which answers {status}{state}")


def _generate(endpoint: Endpoint, seconds: float, *, speculative: bool) -> None:
    where = f"POST {endpoint.url}/generate"
    try:
        meta = endpoint.probe(seconds)
    except AnswerError as error:
        if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise _NotYetError(str(error)) from error
        hint = f": {_SET_KEY}" if error.status in _REFUSED else ""
        raise ServerStartError(
            f"the server is up, but refuses to generate{hint}: {error}"
        ) from error
    except requests.Timeout as error:
        raise _NotYetError(
            f"{where}, which did not come back within {seconds:.0f} s although /health is 200"
        ) from error
    except requests.RequestException as error:
        raise _NotYetError(f"{where}, whose connection broke") from error
    steps = meta.get("spec_verify_ct")
    if speculative and not (isinstance(steps, int) and steps >= 1):
        seen = "no spec_verify_ct" if steps is None else f"spec_verify_ct = {steps!r}"
        raise SpeculationOffError(
            f"speculation is off: the server generated {meta.get('completion_tokens')} tokens "
            f"with {seen}; it was started without --speculative-algorithm, or has switched "
            "speculation off by itself"
        )
