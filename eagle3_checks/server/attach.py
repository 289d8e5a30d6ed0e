"""Speaks to a server that already runs, and never stops it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import requests

from eagle3_checks.facts import PoolSeen, ServerSeen
from eagle3_checks.profile import Profile
from eagle3_checks.server.describe import describe, server_info
from eagle3_checks.server.http import AnswerError, Endpoint
from eagle3_checks.server.identity import changes, differences, identity
from eagle3_checks.server.readiness import ServerStartError, wait_ready
from eagle3_checks.server.redact import Redactor

ATTACH_SECONDS = 60.0
"""How long an attached server may take to answer its first request."""
_ALIVE_SECONDS = 30.0
REQUESTS = "sglang:num_requests_total"
PREFILLED = "total_prefill_uncached_tokens"


class OtherServerError(ServerStartError):
    """An attached server that is not the one the profile describes."""


class AttachedServer:
    """A server that someone else started."""

    launched = False

    def __init__(self, endpoint: Endpoint, api_key: str = "") -> None:
        self.endpoint = endpoint
        self.api_key = api_key
        self.redactor = Redactor.of((), {"api_key": api_key})
        self._identity: dict[str, Any] = {}

    def remember(self) -> None:
        """Keep who answers now, for `changed`."""
        self._identity = identity(self.info())

    @property
    def url(self) -> str:
        """Base address, without a trailing slash."""
        return self.endpoint.url

    def differing(self, profile: Profile) -> tuple[str, ...]:
        """Say where the server is not the one that a profile describes."""
        return differences(profile, self.info())

    def changed(self) -> tuple[str, ...]:
        """Say what became another since the server was attached to: its models, or its start."""
        return changes(self._identity, identity(self.info()))

    def traffic(self) -> dict[str, float]:
        """Return what the server has counted since it started, by unit; empty where it tells none.

        Requests where it was started with ``--enable-metrics``; else prompt tokens that were not
        in its cache, which releases before 0.5.20 do not tell.
        """
        requests_seen = self.endpoint.counter(REQUESTS)
        if requests_seen is not None:
            return {"requests": requests_seen}
        try:
            loads = [load.get(PREFILLED) for load in self.endpoint.loads()]
        except (AnswerError, requests.RequestException):
            return {}
        known = [count for count in loads if isinstance(count, int)]
        return {"prompt tokens": float(sum(known))} if known else {}

    def info(self) -> dict[str, Any]:
        """Return ``/server_info`` as it is now, with secrets masked."""
        return server_info(self.endpoint, self.redactor)

    def seen(self) -> ServerSeen:
        """Return what the server says of itself, with secrets masked."""
        return describe(self.endpoint, self.redactor, launched=False, environment={})

    def wiring(self) -> None:
        """Return None: nothing can look inside a server that was started without the probe."""
        return

    def alive(self) -> bool:
        """Whether the server answers ``/health`` at all."""
        try:
            return self.endpoint.health(_ALIVE_SECONDS) == HTTPStatus.OK
        except requests.RequestException:
            return False

    def ended(self) -> bool:
        """Return False: the end of a server elsewhere is not told, it has to be asked."""
        return False

    def memory(self) -> int | None:
        """Return None: its processes may be on another host."""
        return None

    def cpu_seconds(self) -> float:
        """Return 0: its processes may be on another host."""
        return 0.0

    def clues(self, *, hung: bool) -> tuple[str, ...]:
        """Return nothing: log and processes are not ours to look into."""
        del hung
        return ()

    def pool(self) -> PoolSeen:
        """Raise: the cache of a server that others use is left alone."""
        raise RuntimeError("the cache of an attached server is never flushed")

    def stop(self) -> None:
        """Leave the server as it is."""


@contextlib.contextmanager
def attach(
    url: str,
    api_key: str | None = None,
    *,
    timeout: float = ATTACH_SECONDS,
    request_timeout: float = ATTACH_SECONDS,
    speculative: bool = True,
) -> Iterator[AttachedServer]:
    """Attach to a server that speculates, or to any where `speculative` is False.

    `api_key` is ``EAGLE3_CHECKS_API_KEY`` where it is None; both limits are in seconds. Raises
    ValueError for anything but http(s), ServerStartError where the server does not answer within
    `timeout` seconds, SpeculationOffError where it answers without a verify step.
    """
    key = os.environ.get("EAGLE3_CHECKS_API_KEY", "") if api_key is None else api_key
    with Endpoint(url, key) as endpoint:
        server = AttachedServer(endpoint, key)
        try:
            wait_ready(
                endpoint,
                timeout=timeout,
                request_timeout=request_timeout,
                speculative=speculative,
            )
        except ServerStartError as error:
            error.problem = server.redactor.text(error.problem)
            error.waited_for = server.redactor.text(error.waited_for)
            raise
        server.remember()
        yield server
