"""How far a server's start got, read from its log (messages of SGLang 0.5.16 to 0.5.23)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from enum import IntEnum


class Phase(IntEnum):
    """Phases of a start, in the order of 0.5.23; earlier releases load the drafter last."""

    LAUNCHED = 0
    ARGUMENTS = 1
    DISTRIBUTED = 2
    TARGET_WEIGHTS = 3
    DRAFT_WEIGHTS = 4
    MEMORY_POOL = 5
    GRAPH_CAPTURE = 6
    HTTP = 7
    WARM_UP = 8
    READY = 9

    def __str__(self) -> str:
        """Return the phase in words."""
        return _WORDS[self]


_WORDS = {
    Phase.LAUNCHED: "process launched",
    Phase.ARGUMENTS: "arguments accepted",
    Phase.DISTRIBUTED: "setting up the ranks",
    Phase.TARGET_WEIGHTS: "loading the target's weights",
    Phase.DRAFT_WEIGHTS: "loading the drafter's weights",
    Phase.MEMORY_POOL: "allocating the memory pool",
    Phase.GRAPH_CAPTURE: "capturing graphs",
    Phase.HTTP: "HTTP server up",
    Phase.WARM_UP: "warm-up request",
    Phase.READY: "ready",
}
_WEIGHTS = "Load weight begin"
_MARKERS: tuple[tuple[re.Pattern[str], Phase], ...] = (
    (re.compile(r"server_args="), Phase.ARGUMENTS),
    (re.compile(r"Init (?:torch distributed|parallel) begin"), Phase.DISTRIBUTED),
    (re.compile(r"KV Cache is allocated|Memory pool end"), Phase.MEMORY_POOL),
    (re.compile(r"Capture .*?graph.* begin", re.IGNORECASE), Phase.GRAPH_CAPTURE),
    (re.compile(r"Uvicorn running on|Application startup complete"), Phase.HTTP),
    (re.compile(r'"(?:GET /(?:get_)?model_info|POST /generate) HTTP'), Phase.WARM_UP),
    (re.compile(r"The server is fired up and ready to roll"), Phase.READY),
)
_RANK = re.compile(r"^\[\S+ \S+((?: [A-Z]+\d+)*)\]")


def last_phase(lines: Iterable[str]) -> Phase:
    """Return the phase whose beginning was the last to be logged."""
    phase = Phase.LAUNCHED
    loads: Counter[str] = Counter()
    for line in lines:
        if _WEIGHTS in line:
            # Every rank logs the target's load, then the drafter's.
            rank = _RANK.match(line)
            name = rank[1] if rank else ""
            loads[name] += 1
            phase = Phase.TARGET_WEIGHTS if loads[name] == 1 else Phase.DRAFT_WEIGHTS
            continue
        for pattern, marked in _MARKERS:
            if pattern.search(line):
                phase = marked
                break
        if phase is Phase.READY:  # requests that follow look like the warm-up's
            break
    return phase
