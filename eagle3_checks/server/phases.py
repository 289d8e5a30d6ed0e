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
# tqdm writes its states one over the other, on one line.
_SHARDS = re.compile(r"shards: .*?(\d+)/(\d+) \[")
_RANK = re.compile(r"^\[\S+ \S+((?: [A-Z]+\d+)*)\]")


class PhaseReader:
    """Follows a log line by line."""

    def __init__(self) -> None:
        self.phase = Phase.LAUNCHED
        self.shards: tuple[int, int] | None = None
        """Files of weights loaded so far, and all of them, while they are loaded."""
        self._loads: Counter[str] = Counter()

    def __str__(self) -> str:
        """Return the phase in words, with the files loaded so far."""
        loading = self.phase in (Phase.TARGET_WEIGHTS, Phase.DRAFT_WEIGHTS)
        if loading and self.shards:
            return f"{self.phase}, {self.shards[0]} of {self.shards[1]} shards"
        return str(self.phase)

    def take(self, line: str) -> None:
        """Take one line in; what follows a start that is over changes nothing."""
        if self.phase is Phase.READY:  # requests that follow look like the warm-up's
            return
        if _WEIGHTS in line:
            # Every rank logs the target's load, then the drafter's.
            rank = _RANK.match(line)
            name = rank[1] if rank else ""
            self._loads[name] += 1
            first = self._loads[name] == 1
            self.phase = Phase.TARGET_WEIGHTS if first else Phase.DRAFT_WEIGHTS
            self.shards = None
            return
        shards = _SHARDS.findall(line)
        if shards:
            self.shards = (int(shards[-1][0]), int(shards[-1][1]))
            return
        for pattern, marked in _MARKERS:
            if pattern.search(line):
                self.phase = marked
                return


def last_phase(lines: Iterable[str]) -> Phase:
    """Return the phase whose beginning was the last to be logged."""
    reader = PhaseReader()
    for line in lines:
        reader.take(line)
    return reader.phase
