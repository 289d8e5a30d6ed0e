"""What is to be deployed and what is asked of it: records of one profile.

`eagle3_checks.settings` fills them from the command line, the environment, a TOML file and the
defaults below. docs/profiles.md and fixtures/profiles/template.toml explain every key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Device = Literal["auto", "cuda", "cpu"]
ReplaySource = Literal["none", "transformers", "server"]


@dataclass(frozen=True, kw_only=True)
class Model:
    """A checkpoint: a folder, or a hub id ``org/name[@revision]``."""

    path: str = ""


@dataclass(frozen=True, kw_only=True)
class Server:
    """How SGLang is started, or where it already runs."""

    url: str = ""
    """Attach to this server instead of starting one; it is never stopped."""
    attach_anyway: bool = False
    """Whether a server at ``url`` is measured although it is not the one described here."""
    device: Device = "auto"
    python: str = ""
    """Interpreter that has SGLang; this one where empty."""
    command: tuple[str, ...] = ()
    """Replaces ``python -m sglang.launch_server``; flags are appended, ``{port}`` and ``{gpus}``
    filled in."""
    stop_command: tuple[str, ...] = ()
    """Ends what ``command`` started elsewhere, as ``docker stop`` does; filled in likewise."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free port."""
    tp: int = 1
    gpus: int = 0
    """GPUs of this host that launches share out among them, ``tp`` to each; 0 shares nothing out.
    On the CPU engine, cores."""
    args: tuple[str, ...] = ()
    """Further SGLang flags, passed on as they are."""
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    sglang: str = ""
    """SGLang version to judge the files by; asked of the interpreter where empty."""
    start_timeout: float = 1800.0
    """Seconds from launch to the first answered request."""
    stall_timeout: float = 300.0
    """Seconds of a start without a new log line, CPU time or change of memory."""
    hang_timeout: float = 8.0
    """Seconds in which a server that has requests must show that it works on them."""
    request_timeout: float = 300.0
    """Seconds one request may take."""


@dataclass(frozen=True, kw_only=True)
class Speculation:
    """SGLang's speculation flags."""

    algorithm: str = "EAGLE3"
    steps: int = 3
    topk: int = 1
    draft_tokens: int = 4

    @property
    def chain(self) -> bool:
        """Whether drafts form a chain (topk 1) and not a tree."""
        return self.topk == 1

    @property
    def max_accept_length(self) -> int:
        """Ceiling of the accept length: every draft on a path, and the bonus token."""
        return min(self.steps, self.draft_tokens - 1) + 1


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """What is sent to measure acceptance."""

    sets: tuple[str, ...] = ("chat-general",)
    """Names of shipped prompt sets, or paths of JSONL files with ``text`` or ``messages``."""
    limit: int = 80
    """Prompts taken from each set, from its start; 0 takes all."""
    max_new_tokens: int = 256
    concurrency: int = 4
    chat_template: bool = False
    """Whether prompts pass through the target's chat template."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How output speed is measured."""

    concurrencies: tuple[int, ...] = (1, 8)
    requests: int = 16
    """Requests at each concurrency, and at least two per stream."""
    max_new_tokens: int = 256
    compare_base: str = ""
    """Where to measure the target without speculation: ``launch`` for a second server after this
    one has ended, or the address of one that runs; empty for nowhere."""


@dataclass(frozen=True, kw_only=True)
class WiringCheck:
    """What the wiring is held against."""

    reference_gib: float = 4.0
    """Size of the largest target whose true aux states are computed here, in GiB of weights; in
    memory they take up to twice as much. 0 for never."""


@dataclass(frozen=True, kw_only=True)
class Parity:
    """How losslessness is looked at."""

    prompts: int = 4
    """Prompts taken from the start of the first set; 0 for not at all."""
    max_new_tokens: int = 32


@dataclass(frozen=True, kw_only=True)
class Judging:
    """How sure a verdict on acceptance must be."""

    error: float = 0.05
    """Share of runs that may err at the bound itself, over all looks together."""
    sequential: bool = True
    """Whether a run ends as soon as its verdicts are certain."""
    margin: float = 0.03
    """Share of a baseline's accept length that may be lost: public repetitions of one measurement
    differ by about as much."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """An earlier run to hold this one against."""

    path: str = ""
    """Folder of baselines, one file for each key; or one file, to compare with that one in spite of
    another key."""
    update: bool = False
    """Whether this run becomes the baseline."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Whether the drafter is run offline too, on the target's true aux states."""

    source: ReplaySource = "none"
    """Where the states come from: the target run by transformers, or a server without a drafter."""
    prompts: int = 0
    """At most so many prompts, those first that were sent; 0 takes all that were."""
    device: Device = "auto"
    """Where the reference runs."""
    states: str = ""
    """Folder in which a server's states are kept, so that a replay can go on where it ended."""
    max_gigabytes: float = 20.0
    """Most that they may take on the disk."""


@dataclass(frozen=True, kw_only=True)
class Floors:
    """What a drafter must reach; a floor that is not given is not judged."""

    accept_length: float | None = None
    accept_rate: float | None = None
    tokens_per_second: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Output tokens per second by concurrency: ``{"1" = 20.0, "8" = 60.0}``. ``"H200:8"`` holds on
    GPUs with that name alone, in place of ``"8"``."""
    speed_up: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Output speed / that without speculation, by concurrency; needs ``speed.compare_base``."""
    source: str = ""
    """Where the figures come from."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One deployment to be judged."""

    name: str = ""
    description: str = ""
    target: Model = field(default_factory=Model)
    drafter: Model = field(default_factory=Model)
    server: Server = field(default_factory=Server)
    speculation: Speculation = field(default_factory=Speculation)
    prompts: Prompts = field(default_factory=Prompts)
    speed: Speed = field(default_factory=Speed)
    wiring: WiringCheck = field(default_factory=WiringCheck)
    parity: Parity = field(default_factory=Parity)
    judging: Judging = field(default_factory=Judging)
    baseline: Baseline = field(default_factory=Baseline)
    replay: Replay = field(default_factory=Replay)
    floors: Floors = field(default_factory=Floors)

    @property
    def unmeasured_floors(self) -> tuple[tuple[str, str], ...]:
        """Key and concurrency of every floor at a concurrency that is not measured."""
        measured = {str(c) for c in self.speed.concurrencies}
        return tuple(
            (f"floors.{name}", entry)
            for name in ("tokens_per_second", "speed_up")
            for entry in getattr(self.floors, name)
            if entry.rpartition(":")[2] not in measured
        )


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A profile with the origin of every value."""

    profile: Profile
    origins: Mapping[str, str]
    """Dotted key to ``command line``, ``environment NAME``, ``FILE:LINE`` or ``default``."""
    file: str = ""
