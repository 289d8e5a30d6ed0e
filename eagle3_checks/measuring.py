"""The gate's measurements: what is asked of the ready server, each computed once."""

from __future__ import annotations

import time
from abc import abstractmethod
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

from eagle3_checks.contract.version import Contract, ContractError, contract_for
from eagle3_checks.facts import (
    Acceptance,
    BaselineSeen,
    Comparison,
    PoolSeen,
    Replayed,
    Throughput,
    TrafficSeen,
)
from eagle3_checks.measure.acceptance import Server as Answering
from eagle3_checks.measure.acceptance import shuffled
from eagle3_checks.measure.base import BaseError, base_server
from eagle3_checks.measure.baseline import Key
from eagle3_checks.measure.client import Client
from eagle3_checks.measure.judging import key
from eagle3_checks.measure.machine import hardware, machine_key
from eagle3_checks.measure.progress import Progress
from eagle3_checks.measure.prompts import Prompt, PromptError, PromptSet, load_prompts
from eagle3_checks.measure.run import MeasuredRun
from eagle3_checks.measure.speedup import against_base
from eagle3_checks.measure.throughput import measure_throughput
from eagle3_checks.observing import Observations, StageBlocked
from eagle3_checks.profile import Speculation
from eagle3_checks.replaying import ReplayError, replay_device, replay_profile
from eagle3_checks.server.protocol import Server
from eagle3_checks.server.watch import Watch
from eagle3_checks.verdict import Judgements

END_NOTICE_SECONDS = 2.0
LIVE = ("acceptance", "throughput", "wiring", "parity")
"""Stages that need the server itself: they come before what ends it."""

__all__ = ["BaseError", "Measurements", "ServerLostError", "StageBlocked"]


class ServerLostError(RuntimeError):
    """The server ended while it was measured."""


class Measurements(Observations):
    """Measurements of one server; the gate says where it comes from and judges."""

    artefacts: Path
    progress: Progress
    watch: Watch
    """What looks at the server while there is a client."""
    counted: dict[str, float]
    """What an attached server had counted before it was measured."""
    _plain: Comparison | None = None
    _stack: ExitStack

    @property
    @abstractmethod
    def running(self) -> Server:
        """The server, ready."""

    @property
    @abstractmethod
    def contract(self) -> Contract:
        """What the SGLang version in question does with a drafter."""

    @property
    @abstractmethod
    def speculation(self) -> Speculation:
        """The profile's speculation flags."""

    @cached_property
    def prompts(self) -> PromptSet:
        """The prompts of this run."""
        try:
            return load_prompts(self.profile.prompts)
        except PromptError as error:
            raise StageBlocked(str(error)) from error

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
        """Output speed against a server without speculation, each measured twice.

        Turn about where both run. A launched server has ended afterwards: two rarely fit on one
        GPU. What needs it is asked for before.
        """
        if not self.profile.speed.compare_base:
            raise StageBlocked("no comparison was asked for (--eagle3-compare-base)")
        for stage in LIVE:
            self._fact(stage)
        names, load = self._serving_contract().meta, self.measuring.load
        fast = [self.throughput]
        launch = self.profile.speed.compare_base == "launch"
        with self._timed("base"):
            if launch:
                fast.append(measure_throughput(self.client, load, names))
                self._stack.close()
            with base_server(self.profile, self.artefacts, load, names) as plain:
                base = [plain.throughput()]
                if not launch:
                    fast.append(measure_throughput(self.client, load, names))
                base.append(plain.throughput())
                self._compare_answers(plain.client)
        return against_base(fast, base)

    @cached_property
    def against_plain(self) -> Comparison:
        """The answers of parity against those of the target without speculation."""
        _ = self.compared
        if self._plain is None:
            raise StageBlocked(self._fact("parity")[1] or "no answers to compare")
        return self._plain

    def _compare_answers(self, client: Client) -> None:
        """Ask the target without speculation what parity asked, where it did."""
        if self._fact("parity")[0] is not None:
            self._plain = self.parity_run.against(client)

    @cached_property
    def replayed(self) -> Replayed:
        """What the drafter reaches on the target's true aux states, over the prompts sent.

        Where the target is needed once more, on the GPU or in a server, a launched server has ended
        afterwards: what needs it is asked for before.
        """
        if self.profile.replay.source == "none":
            raise StageBlocked("no replay was asked for (--eagle3-replay)")
        if self.profile.replay.source == "server" or replay_device(self.profile) == "cuda":
            for stage in (*LIVE, *(("compared",) if self.profile.speed.compare_base else ())):
                self._fact(stage)
            self._stack.close()
        else:
            self._fact("acceptance")
        with self._timed("replay"):
            try:
                return replay_profile(
                    self.profile,
                    self.files,
                    self.contract,
                    self._sent(),
                    self.artefacts,
                    progress=self.progress,
                )
            except ReplayError as error:
                raise StageBlocked(str(error)) from error

    def _sent(self) -> list[Prompt]:
        """Return the prompts that were answered, or else all, in the order they are sent in."""
        order = shuffled(self.prompts.prompts)
        answered = {key(sample) for sample in self.samples}
        if answered:
            order = [prompt for prompt in order if (prompt.set, prompt.id) in answered]
        return order[: self.profile.replay.prompts or None]

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
