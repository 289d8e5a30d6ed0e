"""What a running server says of itself, and what the probe saw inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eagle3_checks.facts.files import Corner, Shape


@dataclass(frozen=True, kw_only=True)
class LoadedTensor:
    """One tensor that the drafter's loader was offered, and the parameters it reached."""

    name: str
    shape: Shape
    dtype: str
    into: tuple[str, ...]
    """Parameters written while the loader held it; empty means dropped."""


@dataclass(frozen=True, kw_only=True)
class LoadSeen:
    """One run of a drafter class's ``load_weights``, seen from inside the server."""

    model_class: str
    rank: int
    tensors: tuple[LoadedTensor, ...]
    unwritten: tuple[str, ...]
    """Parameters that no tensor reached: random or constant initial values."""
    shared: tuple[str, ...] = ()
    """Parameters replaced by the target's afterwards."""
    partly: tuple[str, ...] = ()
    """Parameters of which tensors reached a part only."""


@dataclass(frozen=True, kw_only=True)
class ForwardSeen:
    """A distinct way in which the drafter's model was called."""

    rank: int
    mode: str
    """SGLang's ForwardMode by name: EXTEND (prompt), DRAFT_EXTEND… (after verify), DECODE."""
    width: int
    """Last dimension of the hidden states handed in."""
    embed_width: int
    fc_ran: bool
    fc_in: int | None
    fc_out: int | None
    capturing: bool = False
    """Seen while a CUDA graph was captured; shapes are fixed there, so the fact holds in replay."""


@dataclass(frozen=True, kw_only=True)
class CaptureSeen:
    """The layers the target was told to capture."""

    rank: int
    target_class: str
    layers: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class StateDigest:
    """What is kept of the states of one layer, over the tokens of a prompt."""

    mean: float
    norm: float
    """Root of the mean square."""
    rows: tuple[float, ...]
    """Products with fixed random directions, the same number for each token."""


@dataclass(frozen=True, kw_only=True)
class StatesSeen:
    """The aux states that the drafter was handed for the beginning of one prompt."""

    rank: int
    tokens: tuple[int, ...]
    width: int
    hidden_size: int
    """Of the target: the width of one state."""
    dtype: str
    states: tuple[StateDigest, ...]
    """In the order in which they are concatenated."""


@dataclass(frozen=True, kw_only=True)
class HeadsSeen:
    """Whose embedding and head the drafter serves with.

    ``same``: the target's own memory. ``equal``: other memory, the same values in some rows.
    ``other``: other values. ``size``: another shape. ``unknown``: the target showed none.
    """

    rank: int
    embedding: str
    head: str


@dataclass(frozen=True, kw_only=True)
class DraftedSeen:
    """The tokens of the drafter's first trees."""

    rank: int
    tokens: int
    outside: int
    """Drafts that d2t maps no draft id to, or that the target does not know."""
    examples: tuple[int, ...]
    allowed: int
    """Ids that may be drafted."""


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """What the probe saw inside the serving processes."""

    sglang: str | None
    loads: tuple[LoadSeen, ...]
    forwards: tuple[ForwardSeen, ...]
    captures: tuple[CaptureSeen, ...]
    errors: tuple[str, ...] = ()
    """The probe's own faults; facts may be missing where these stand."""
    states: tuple[StatesSeen, ...] = ()
    heads: tuple[HeadsSeen, ...] = ()
    drafted: tuple[DraftedSeen, ...] = ()
    corners: Mapping[str, Corner] = field(default_factory=dict)
    """Of the drafter's matrices on the first rank, once it had served a prompt."""


@dataclass(frozen=True, kw_only=True)
class TrueStates:
    """The target's own states for the prompts that the probe saw, computed by a reference."""

    source: str
    """What computed them."""
    states: Mapping[tuple[int, ...], Mapping[int, StateDigest]]
    """By the tokens of the prompt, then by boundary: what enters layer i, boundary 0 being the
    embedding."""
    outputs: Mapping[tuple[int, ...], Mapping[int, StateDigest]]
    """What the feed-forward part of the layer before each boundary adds to the residual."""


@dataclass(frozen=True, kw_only=True)
class PoolSeen:
    """The KV cache of a server once all requests are answered and its prefix cache is flushed."""

    refused: str = ""
    """Why the prefix cache was not flushed."""
    used: int | None = None
    """Tokens still in use, over all schedulers; None where the release does not tell."""
    capacity: int | None = None


@dataclass(frozen=True, kw_only=True)
class TrafficSeen:
    """What an attached server counted while it was measured, and what of it was ours."""

    unit: str
    """What was counted: ``requests`` or ``prompt tokens``; empty where the server tells neither."""
    counted: float = 0.0
    ours: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ServerSeen:
    """What a ready server says of itself."""

    url: str
    launched: bool
    sglang: str | None
    info: Mapping[str, Any]
    """``/server_info``, with secrets removed."""
    environment: Mapping[str, str]
    """SGLANG_* and NCCL_* variables of a launched server."""
    start_seconds: float | None = None
    command: tuple[str, ...] = ()
    log: str | None = None
