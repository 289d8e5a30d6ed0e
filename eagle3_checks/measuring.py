"""The gate's measurements: what is asked of the ready server, each computed once."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from eagle3_checks.checkpoint.subject import Subject
from eagle3_checks.contract.version import Contract, ContractError, contract_for
from eagle3_checks.facts import (
    Acceptance,
    BaselineSeen,
    PoolSeen,
    RequestSample,
    ServerSeen,
    Throughput,
    TrafficSeen,
)
from eagle3_checks.measure.acceptance import Server as Answering
from eagle3_checks.measure.base import BaseError, measure_base
from eagle3_checks.measure.baseline import Key
from eagle3_checks.measure.client import Client
from eagle3_checks.measure.machine import hardware, machine_key
from eagle3_checks.measure.progress import Progress
from eagle3_checks.measure.prompts import PromptSet, load_prompts
from eagle3_checks.measure.run import MeasuredRun
from eagle3_checks.measure.throughput import against_base
from eagle3_checks.profile import Profile, Speculation
from eagle3_checks.server.protocol import Server
from eagle3_checks.server.watch import Watch
from eagle3_checks.verdict import Judgements

END_NOTICE_SECONDS = 2.0

__all__ = ["BaseError", "Measurements", "ServerLostError", "StageBlocked"]


class ServerLostError(RuntimeError):
    """The server ended while it was measured."""


class StageBlocked(Exception):  # noqa: N818 - it names a state
    """A stage cannot run, for a reason that is already a finding or a plain fact."""


class Measurements(ABC):
    """Measurements of one server; the gate says where it comes from and judges."""

    profile: Profile
    files: Subject
    artefacts: Path
    progress: Progress
    samples: tuple[RequestSample, ...]
    failures: tuple[str, ...]
    stage_seconds: dict[str, float]
    watch: Watch
    """What looks at the server while there is a client."""
    counted: dict[str, float]
    """What an attached server had counted before it was measured."""
    _stack: ExitStack

    @property
    @abstractmethod
    def running(self) -> Server:
        """The server, ready."""

    @property
    @abstractmethod
    def server(self) -> ServerSeen:
        """What the ready server says of itself."""

    @property
    @abstractmethod
    def contract(self) -> Contract:
        """What the SGLang version in question does with a drafter."""

    @property
    @abstractmethod
    def speculation(self) -> Speculation:
        """The profile's speculation flags."""

    @abstractmethod
    def _fact(self, name: str) -> tuple[Any, str]:
        """Return a fact, or why there is none."""

    @cached_property
    def prompts(self) -> PromptSet:
        """The prompts of this run."""
        return load_prompts(self.profile.prompts)

    @cached_property
    def client(self) -> Client:
        """A client of the running server, which is watched from here on."""
        client = Client(
            self.running.url,
            api_key=self.running.api_key,
            timeout=self.profile.server.request_timeout,
        )
        self._stack.callback(client.close)
        self.counted = self.running.traffic()
        watch = Watch(self.running, client, self.profile.server.hang_timeout)
        self.watch = self._stack.enter_context(watch)
        return client

    @cached_property
    def measuring(self) -> MeasuredRun:
        """The measurements of the running server, made when they are asked for."""
        contract = self._serving_contract()
        return MeasuredRun(
            client=self.client,
            profile=self.profile,
            prompts=self.prompts,
            server=Answering(
                names=contract.meta,
                version=self.server.sglang or contract.version,
                speculation=self.speculation,
            ),
            key=self._key(),
            progress=self.progress,
        )

    @cached_property
    def acceptance(self) -> Acceptance:
        """Acceptance over the profile's prompts, as many as its questions need."""
        run = self.measuring
        with self._timed("acceptance"):
            measured = run.measured
        self.samples = measured.samples
        self.failures += tuple(str(f) for f in measured.failures)
        self._require_alive(failed=measured.acceptance.failed_requests)
        return measured.acceptance

    @cached_property
    def judgements(self) -> Judgements:
        """What is certain of the acceptance."""
        _ = self.acceptance
        return self.measuring.judgements

    @cached_property
    def baseline(self) -> BaselineSeen:
        """The earlier run that this one is held against, or that it becomes."""
        _ = self.acceptance
        seen = self.measuring.baseline
        if seen is None:
            raise StageBlocked("no baseline was asked for (--eagle3-baseline DIR)")
        return seen

    @cached_property
    def throughput(self) -> Throughput:
        """Output speed at the profile's concurrencies."""
        run = self.measuring
        with self._timed("throughput"):
            measured = run.throughput
        self._require_alive(failed=sum(s.failed for s in measured.streams))
        return measured

    @cached_property
    def hardware(self) -> str:
        """What the server runs on, as far as it can be known from here."""
        return hardware(self.profile)

    @cached_property
    def pool(self) -> PoolSeen:
        """What is left in the KV pool once the load is over and the prefix cache flushed."""
        if not self.running.launched:
            raise StageBlocked("an attached server is never flushed")
        for stage in ("acceptance", "throughput"):
            self._fact(stage)
        self._require_alive(failed=0)
        return self.running.pool()

    @cached_property
    def traffic(self) -> TrafficSeen:
        """What an attached server counted while it was measured, against what was sent."""
        if self.running.launched:
            raise StageBlocked("a server of our own has no other clients")
        for stage in ("acceptance", "throughput"):
            self._fact(stage)
        self._require_alive(failed=0)
        after = self.running.traffic()
        unit = next((unit for unit in self.counted if unit in after), "")
        ours = self.client.requests if unit == "requests" else self.client.prompt_tokens
        if not unit or ours is None:
            return TrafficSeen(unit="")
        return TrafficSeen(unit=unit, counted=after[unit] - self.counted[unit], ours=ours)

    @cached_property
    def compared(self) -> Throughput:
        """Output speed against a server without speculation.

        A launched server has ended afterwards: two rarely fit on one GPU. What needs it is asked
        for before.
        """
        if not self.profile.speed.compare_base:
            raise StageBlocked("no comparison was asked for (--eagle3-compare-base)")
        for stage in ("acceptance", "throughput", "wiring"):
            self._fact(stage)
        fast, names = self.throughput, self._serving_contract().meta
        if self.profile.speed.compare_base == "launch":
            self._stack.close()
        with self._timed("base"):
            base = measure_base(self.profile, self.artefacts, self.measuring.load, names)
        return against_base(fast, base)

    def _serving_contract(self) -> Contract:
        version = self.server.sglang
        try:
            return contract_for(version) if version else self.contract
        except ContractError:
            return self.contract

    def _require_alive(self, *, failed: int) -> None:
        """Tell a server that is gone, or another by now, from one that refuses requests.

        After a failed request the news of the server's end may still be on its way.
        """
        deadline = time.monotonic() + (END_NOTICE_SECONDS if failed else 0.0)
        why = self._gone()
        while not why and time.monotonic() < deadline:
            time.sleep(END_NOTICE_SECONDS / 20)
            why = self._gone()
        if not why and (changed := self.running.changed()):
            why = f"another server answers than at the beginning: {'; '.join(changed)}"
        if why:
            raise ServerLostError("\n".join((why, *self.running.clues(hung=self.watch.hung))))

    def _gone(self) -> str:
        """Say why the server can be measured no more, or nothing."""
        _ = self.client  # with which the watch begins
        if self.watch.lost:
            return self.watch.lost
        return "" if self.running.alive() else "the server ended while it was measured"

    def _key(self) -> Key | None:
        if not self.profile.baseline.path:
            return None
        return machine_key(
            self.profile,
            self.server,
            drafter_hash=self.files.drafter_hash,
            target=self.files.target,
            prompts=self.prompts.sha256,
        )

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.stage_seconds[stage] = time.perf_counter() - begin
