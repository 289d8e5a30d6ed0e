"""A server's own description of itself as a fact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import requests

from eagle3_checks.facts import ServerSeen
from eagle3_checks.server.http import AnswerError, Endpoint
from eagle3_checks.server.redact import Redactor

_KEPT_PREFIXES = ("SGLANG_", "SGL_", "SIMULATE_", "NCCL_")
"""SGLang's variables, among them the names of older releases, and NCCL's."""


def server_info(endpoint: Endpoint, redactor: Redactor) -> dict[str, Any]:
    """Return ``/server_info`` with ``/model_info`` under ``model_info``, secrets masked.

    A server without the second is described by the first alone.
    """
    info = endpoint.info()
    try:
        info["model_info"] = endpoint.model_info()
    except (AnswerError, requests.RequestException):
        info["model_info"] = None
    masked: dict[str, Any] = redactor.data(info)
    return masked


def describe(  # noqa: PLR0913 - one argument per thing seen
    endpoint: Endpoint,
    redactor: Redactor,
    *,
    launched: bool,
    environment: Mapping[str, str],
    start_seconds: float | None = None,
    command: tuple[str, ...] = (),
    log: str | None = None,
) -> ServerSeen:
    """Ask the server and return what is known of it, without secrets.

    `environment` is all that was given to a launched server; SGLang's and NCCL's variables are
    kept, and those that fake acceptance in older versions, which have no prefix.
    """
    info = server_info(endpoint, redactor)
    kept = {k: v for k, v in sorted(environment.items()) if k.startswith(_KEPT_PREFIXES)}
    version = info.get("version")
    return ServerSeen(
        url=endpoint.url,
        launched=launched,
        sglang=version if isinstance(version, str) else None,
        info=info,
        environment=redactor.data(kept),
        start_seconds=start_seconds,
        command=redactor.command(command),
        log=log,
    )
