"""What was seen of losslessness: speculation must change no token that is answered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """A token that differs from the one it is held against."""

    prompt_id: str
    index: int
    """Place in the output, 0 for its first token."""
    token: int
    other: int
    """What the target chooses there, or what the other run answered."""
    margin: float | None
    """Log probability of the better one of both minus that of the other, by the target's prefill,
    in nats; None where one is not among the target's likeliest: at least `floor` then."""
    floor: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Outputs held against others, token by token; of two runs the first difference counts."""

    prompts: int = 0
    tokens: int = 0
    """Tokens that were compared."""
    divergences: tuple[Divergence, ...] = ()
    missing: str = ""
    """Why nothing was compared, where nothing was."""


@dataclass(frozen=True, kw_only=True)
class ZeroRun:
    """Token 0 over and over."""

    prompt_id: str
    index: int
    length: int


@dataclass(frozen=True, kw_only=True)
class RequestKind:
    """One kind of request, sent once while the server speculates."""

    kind: str
    asked: str
    """What the answer had to be, in a few words."""
    problem: str = ""
    """What was wrong with the answer."""
    refused: str = ""
    """What the server said where it refuses this kind of request."""
    open: str = ""
    """Why the answer proves nothing."""
    survived: bool = True
    """Whether the server answered an ordinary request afterwards."""


@dataclass(frozen=True, kw_only=True)
class Looping:
    """Text that repeats itself, which is easy to draft."""

    prompts: int
    characters: int
    looping: int
    """Characters that lie in loops."""
    worst: tuple[str, ...] = ()
    """Prompts of which half or more loops."""
    accept_length: float | None = None
    """Over the prompts that loop little."""
    accept_length_all: float | None = None


@dataclass(frozen=True, kw_only=True)
class Parity:
    """Losslessness of one server, over a few prompts."""

    dtype: str
    """What the target computes in: float32, bfloat16, float16; nothing where it is not known."""
    scored: Comparison
    """Each token against the target's own choice, by prefill over the same text."""
    again: Comparison
    """Two runs that are the same in everything."""
    together: Comparison
    """One request at a time against all at once."""
    concurrency: int
    cached: Comparison
    """Prompts seen for the first time against the same with their prefix cached."""
    cached_tokens: int = 0
    """Prompt tokens that the second run took from the cache, and the first did not."""
    zero_runs: tuple[ZeroRun, ...] = ()
    kinds: tuple[RequestKind, ...] = ()
    failures: tuple[str, ...] = ()
    """Requests that brought no answer."""
