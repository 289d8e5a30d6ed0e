"""What was seen: frozen records without behaviour.

Readers of files, of a running server and of measurements fill these in; rules judge them. Nothing
here knows what a value should be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Shape = tuple[int, ...]


class FileFault(StrEnum):
    """How a checkpoint's files fail to be readable."""

    MISSING = "missing"
    NOT_JSON = "not-json"
    TRUNCATED = "truncated"
    BAD_HEADER = "bad-header"
    ABSENT_SHARD = "absent-shard"
    DUPLICATE = "duplicate"
    PICKLE_ONLY = "pickle-only"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, kw_only=True)
class FileProblem:
    """A file that could not be used, with what to do about it."""

    fault: FileFault
    file: str
    detail: str
    """What was seen and what was expected, in one sentence."""
    fix: str


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """One tensor as its safetensors header describes it."""

    name: str
    dtype: str
    """The header's own spelling: F32, BF16, I64, BOOL …"""
    shape: Shape
    file: str
    """Name of the file that holds it, relative to the checkpoint's folder."""
    begin: int
    """Absolute offset of the first byte in that file."""
    end: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """All tensors of a checkpoint, from headers alone, and what could not be read."""

    source: str
    tensors: Mapping[str, TensorInfo]
    files: tuple[str, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[FileProblem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DraftConfig:
    """A drafter's config.json; fields are None where the file does not state them (or states null).

    Field semantics: SGLang 0.5.23, ``srt/models/llama_eagle3.py``.
    """

    source: str
    raw: Mapping[str, Any]
    architectures: tuple[str, ...] = ()
    model_type: str | None = None
    hidden_size: int | None = None
    target_hidden_size: int | None = None
    intermediate_size: int | None = None
    num_hidden_layers: int | None = None
    num_attention_heads: int | None = None
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    vocab_size: int | None = None
    draft_vocab_size: int | None = None
    max_position_embeddings: int | None = None
    tie_word_embeddings: bool | None = None
    num_aux_hidden_states: int | None = None
    aux_layer_ids: tuple[int, ...] | None = None
    """``eagle_config.eagle_aux_hidden_state_layer_ids``: the ids SGLang captures by."""
    aux_layer_ids_top_level: tuple[int, ...] | None = None
    """The same key at the top level, which SGLang's capture code does not read."""
    use_aux_hidden_state: bool | None = None
    problems: tuple[FileProblem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TargetConfig:
    """A target's config.json, multimodal wrappers looked through (``text_config``)."""

    source: str
    raw: Mapping[str, Any]
    architectures: tuple[str, ...] = ()
    model_type: str | None = None
    hidden_size: int | None = None
    num_hidden_layers: int | None = None
    vocab_size: int | None = None
    max_position_embeddings: int | None = None
    problems: tuple[FileProblem, ...] = ()


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
class Wiring:
    """What the probe saw inside the serving processes."""

    sglang: str | None
    loads: tuple[LoadSeen, ...]
    forwards: tuple[ForwardSeen, ...]
    captures: tuple[CaptureSeen, ...]
    errors: tuple[str, ...] = ()
    """The probe's own faults; facts may be missing where these stand."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate with a two-sided confidence interval."""

    value: float
    low: float
    high: float
    level: float
    """Confidence level, 0.95 for 95 %."""
    n: int
    """Independent units the interval rests on: prompts, not tokens."""


@dataclass(frozen=True, kw_only=True)
class RequestSample:
    """The counts one finished request reported."""

    prompt_id: str
    prompt_set: str
    prompt_tokens: int
    completion_tokens: int
    verify_steps: int
    correct_drafts: int
    proposed_drafts: int
    histogram: tuple[int, ...] | None
    """``histogram[i]``: verify steps in which exactly i drafts were correct."""
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Depth:
    """How often at least `drafts` drafts of a verify step were correct.

    In a chain that is the draft at position `drafts`; in a tree, a path of that length.
    """

    drafts: int
    joint: Interval
    """Share of all verify steps."""
    conditional: float | None
    """Share of the verify steps in which one draft less was correct; None where there are none."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Acceptance over some of the prompts: one set, or one range of lengths."""

    name: str
    prompts: int
    verify_steps: int
    accept_length: Interval | None


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """Acceptance over a prompt set. Formulas: docs/measurements.md."""

    prompts: int
    verify_steps: int
    correct_drafts: int
    proposed_drafts: int
    accept_length: Interval | None
    """Pooled tokens per verify step, bonus included: 1 + correct drafts / verify steps."""
    accept_rate: Interval | None
    """Pooled correct drafts / proposed drafts."""
    per_position: tuple[float, ...] | None
    """Share of verify steps in which the draft at position 1, 2, … was correct (chain only)."""
    failed_requests: int
    missing: str | None = None
    """Why there is no figure, where there is none."""
    contradictions: tuple[str, ...] = ()
    """Identities of the server's own counts that did not hold."""
    accept_length_mean: Interval | None = None
    """Mean over requests of 1 + correct drafts / verify steps: every prompt counts the same."""
    depths: tuple[Depth, ...] = ()
    by_set: tuple[Group, ...] = ()
    by_prompt_tokens: tuple[Group, ...] = ()
    unreported: tuple[str, ...] = ()
    """Figures that this SGLang version does not report, and what stands in for them."""
    planned: int = 0
    """Prompts the run might have sent; fewer were where it ended early."""
    stopped: str = ""
    """Why it ended before all planned prompts were sent."""


@dataclass(frozen=True, kw_only=True)
class BaselineSeen:
    """The recorded run that this one is held against."""

    path: str
    state: str
    """``none``, ``written``, ``updated``, ``alike`` or ``unlike``; the last two are compared."""
    recorded: str = ""
    """When the baseline was recorded, in ISO 8601."""
    accept_length: float | None = None
    margin: float = 0.0
    """Share of the baseline's accept length that may be lost."""
    pairs: int = 0
    """Prompts that both runs answered."""
    differences: tuple[str, ...] = ()
    """Parts of the key in which the two runs, or this one and `nearest`, differ."""
    nearest: str = ""
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """Median and 99th percentile, in seconds."""

    p50: float
    p99: float
    n: int


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Output speed at one concurrency."""

    concurrency: int
    requests: int
    failed: int
    output_tokens: int
    seconds: float
    tokens_per_second: float
    interval: Interval | None = None
    """Of the tokens per second, with the prompt as its unit."""
    first_token: Quantiles | None = None
    """From sending a request to its first token."""
    between_tokens: Quantiles | None = None
    """Time of a chunk after the one before it, per token that it brought."""
    client_share: float = 0.0
    """CPU seconds of the client / seconds of the run; near 1 the client was the bottleneck."""
    accept_length: float | None = None
    """Over the same requests."""
    latencies: tuple[tuple[str, int, float], ...] = ()
    """Prompt, output tokens and seconds of every answered request."""


@dataclass(frozen=True, kw_only=True)
class SpeedUp:
    """Output speed with speculation / without, at one concurrency."""

    concurrency: int
    ratio: Interval
    base_tokens_per_second: float


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Output speed of the server, tokens per second, at each concurrency asked for."""

    streams: tuple[Stream, ...]
    base: tuple[Stream, ...] = ()
    """The same requests without speculation."""
    speed_ups: tuple[SpeedUp, ...] = ()
    break_even: float | None = None
    """Concurrency from which on speculation no longer pays; None where it always or never does."""
    warm_up: str = ""
    """Rule by which warm-up requests were left out."""


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
