"""What was measured on a running server."""

from __future__ import annotations

from dataclasses import dataclass


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
    reported: bool = True
    """Whether the server told a number of verify steps at all, be it zero."""


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
class Replayed:
    """What the drafter reaches when the reference runs it on the target's true aux states."""

    source: str
    """Where the aux states come from: ``transformers`` or ``server``."""
    acceptance: Acceptance


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A replay with one thing changed: what the drafter would reach if it were so."""

    name: str
    cause: str
    """Name of the cause that it speaks for."""
    change: str
    """What was changed, as in ``rope_theta 10000 in place of 1000000``."""
    accept_length: float
    per_position: tuple[float, ...]
    distance: float | None = None
    """Share of verify steps, over the prompts that were served, whose number of correct drafts is
    counted differently; 0 where both agree count for count."""


@dataclass(frozen=True, kw_only=True)
class Trials:
    """Replays over the same text, with and without changes."""

    prompts: int
    verify_steps: int
    unchanged: Trial
    """The drafter as its files and config state it."""
    repairs: tuple[Trial, ...] = ()
    """Changes of the drafter that would mend one fault each."""
    faults: tuple[Trial, ...] = ()
    """What a server may do wrong, one thing each."""
    ablations: tuple[Trial, ...] = ()
    """The drafter without one of its inputs."""
    coverage: float = 1.0
    """Share of the target's tokens that the draft vocabulary holds."""


@dataclass(frozen=True, kw_only=True)
class BaselineSeen:
    """The recorded run that this one is held against."""

    path: str
    state: str
    """``none``, ``written``, ``updated``, ``alike`` or ``unlike``; the last two are compared."""
    recorded: str = ""
    """When the baseline was recorded, in ISO 8601."""
    accept_length: float | None = None
    per_position: tuple[float, ...] | None = None
    """Share of verify steps in which the draft at position 1, 2, … was correct (chain only)."""
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
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that the server had in its prefix cache, which cost no prefill."""


@dataclass(frozen=True, kw_only=True)
class SpeedUp:
    """Output speed with speculation / without, at one concurrency."""

    concurrency: int
    ratio: Interval
    """Its interval holds what differs from prompt to prompt, and `drift`."""
    base_tokens_per_second: float
    drift: float | None = None
    """Relative standard deviation of a speed from one measurement to the next on the same server,
    over all concurrencies with and without speculation; None where none was repeated."""


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Output speed of the server, tokens per second, at each concurrency asked for."""

    streams: tuple[Stream, ...]
    again: tuple[Stream, ...] = ()
    """The same requests once more, where speed is compared."""
    base: tuple[Stream, ...] = ()
    """The same requests without speculation."""
    base_again: tuple[Stream, ...] = ()
    speed_ups: tuple[SpeedUp, ...] = ()
    break_even: float | None = None
    """Concurrency from which on speculation no longer pays; None where it always or never does."""
    warm_up: str = ""
    """Rule by which warm-up requests were left out."""
