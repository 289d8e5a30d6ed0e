"""The KV pool of a server of our own, after the load."""

from __future__ import annotations

import threading
import time
from typing import Any

from eagle3_checks.facts import PoolSeen
from eagle3_checks.server.http import Endpoint

FLUSH_SECONDS = 15.0
"""How long the requests that still run may take, and the schedulers to tell their new load."""
_POLL_SECONDS = 0.2


def emptied(endpoint: Endpoint) -> PoolSeen:
    """Flush the prefix cache and return what is in use then: nothing, where nothing leaks.

    Schedulers publish their load every now and then, so a figure above zero is asked for again
    until the limit. Raises requests' exceptions.
    """
    deadline = time.monotonic() + FLUSH_SECONDS
    refused = endpoint.flush(FLUSH_SECONDS)
    pause = threading.Event()
    while not refused:
        loads = endpoint.loads()
        seen = PoolSeen(
            used=_sum(loads, "num_used_tokens", "num_tokens"),
            capacity=_sum(loads, "max_total_num_tokens"),
        )
        if not seen.used or time.monotonic() >= deadline:
            return seen
        pause.wait(_POLL_SECONDS)
    return PoolSeen(refused=refused)


def _sum(loads: list[dict[str, Any]], *names: str) -> int | None:
    found = [load[name] for load in loads for name in names if type(load.get(name)) is int]
    return sum(found) if found else None
