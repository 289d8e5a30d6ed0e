"""The gate's looks at values and answers: aux states, losslessness, loops; each computed once."""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from eagle3_checks.checkpoint.subject import Subject
from eagle3_checks.facts import Looping, Parity, RequestSample, ServerSeen, TrueStates
from eagle3_checks.measure.client import Client, RequestRefused
from eagle3_checks.measure.looping import measure_looping
from eagle3_checks.measure.parity import ParityRun, first_line
from eagle3_checks.measure.prompts import PromptSet
from eagle3_checks.profile import Profile


class StageBlocked(Exception):  # noqa: N818 - it names a state
    """A stage cannot run, for a reason that is already a finding or a plain fact."""


class Observations(ABC):
    """What one server does, beside how much and how fast; the gate judges it."""

    profile: Profile
    files: Subject
    samples: tuple[RequestSample, ...]
    failures: tuple[str, ...]
    stage_seconds: dict[str, float]

    @property
    @abstractmethod
    def server(self) -> ServerSeen:
        """What the ready server says of itself."""

    @property
    @abstractmethod
    def client(self) -> Client:
        """A client of the running server."""

    @property
    @abstractmethod
    def prompts(self) -> PromptSet:
        """The prompts of this run."""

    @abstractmethod
    def _fact(self, name: str) -> tuple[Any, str]:
        """Return a fact, or why there is none."""

    @abstractmethod
    def _require_alive(self, *, failed: int) -> None:
        """Tell a server that is gone from one that refuses requests."""

    @cached_property
    def true_states(self) -> TrueStates:
        """The target's own states for the prompts that the probe saw."""
        wiring, blocked = self._fact("wiring")
        if wiring is None:
            raise StageBlocked(blocked)
        prompts = {seen.tokens: None for seen in wiring.states}
        if not prompts:
            raise StageBlocked("the probe saw no aux states (SGLang 0.5.16 or later shows them)")
        limit, folder = self.profile.wiring.reference_gib, Path(self.profile.target.path)
        if not limit or not folder.is_dir():
            why = "wiring.reference_gib is 0" if not limit else "the target's files are not here"
            raise StageBlocked(f"true states are not computed: {why}")
        with self._timed("true states"):
            try:
                with warnings.catch_warnings():  # of other packages, in the user's own tests
                    warnings.simplefilter("ignore")
                    from eagle3_checks.reference import states  # noqa: PLC0415 - loads torch
            except ImportError as error:
                raise StageBlocked(f"true states need the extra `reference`: {error}") from error
            try:
                return states.true_states(folder, prompts, limit)
            except states.NoReferenceError as error:
                raise StageBlocked(str(error)) from error

    @cached_property
    def parity_run(self) -> ParityRun:
        """A few prompts and what was answered to them."""
        wanted = self.profile.parity
        if not wanted.prompts:
            raise StageBlocked("losslessness was not asked for (parity.prompts is 0)")
        prompts = self.prompts.prompts[: wanted.prompts]
        try:
            return ParityRun.of(
                self.client,
                prompts,
                new_tokens=wanted.max_new_tokens,
                first_line=first_line(launched=self.server.launched),
            )
        except RequestRefused as refusal:
            raise StageBlocked(f"losslessness cannot be looked at: {refusal}") from refusal

    @cached_property
    def parity(self) -> Parity:
        """Losslessness over a few prompts. A kind of request that ends the server is in it."""
        with self._timed("parity"):
            found = self.parity_run.parity(self._dtype())
        self.failures += found.failures
        if all(kind.survived for kind in found.kinds):
            self._require_alive(failed=len(found.failures))
        return found

    @cached_property
    def looping(self) -> Looping:
        """Loops in the answers by which acceptance was measured."""
        acceptance, blocked = self._fact("acceptance")
        if acceptance is None:
            raise StageBlocked(blocked)
        return measure_looping(self.samples)

    def _dtype(self) -> str:
        """Return what the target computes in; nothing where it is not told."""
        told = str(self.server.info.get("dtype") or "")
        named = self.files.target.dtype if told in ("", "auto") and self.files.target else told
        return {"half": "float16", "float": "float32"}.get(named or "", named or "")

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.stage_seconds[stage] = time.perf_counter() - begin
