"""The measurements of one run over one server: what is asked, what was kept from earlier runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from eagle3_checks.facts import BaselineSeen, Throughput
from eagle3_checks.measure.acceptance import Measured, Server, measure_acceptance
from eagle3_checks.measure.baseline import (
    BaselineError,
    Key,
    Record,
    add_speed,
    find,
    nearest,
    past,
    record,
    summary,
    write,
)
from eagle3_checks.measure.client import Client
from eagle3_checks.measure.judging import Inquiry, LengthFloor, NotWorse, Question, RateFloor, key
from eagle3_checks.measure.progress import SILENT, Progress
from eagle3_checks.measure.prompts import PromptSet
from eagle3_checks.measure.throughput import Load, measure_throughput
from eagle3_checks.profile import Profile
from eagle3_checks.verdict import Judgements

KEPT = ("written", "updated", "alike")
"""States of a baseline whose history this run continues."""


@dataclass(kw_only=True)
class MeasuredRun:
    """The measurements of one server, each made once and only when asked for."""

    client: Client
    profile: Profile
    prompts: PromptSet
    server: Server
    key: Key | None = None
    """None where no baseline is asked for."""
    progress: Progress = SILENT
    trouble: str = ""
    """Why a baseline could not be used."""

    @cached_property
    def kept(self) -> Record | None:
        """The baseline to compare with; None where there is none, or none that can be read."""
        path = Path(self.profile.baseline.path)
        if not (self.profile.baseline.path and self.key):
            return None
        if self.profile.baseline.update and not path.exists():
            return None
        try:
            return find(path, self.key)
        except BaselineError as error:
            self.trouble = str(error)
            return None

    @cached_property
    def inquiry(self) -> Inquiry:
        """What the profile asks of the acceptance."""
        floors, judging = self.profile.floors, self.profile.judging
        questions: dict[str, Question] = {}
        if floors.accept_length is not None:
            questions["accept_length"] = LengthFloor(floor=floors.accept_length)
        if floors.accept_rate is not None:
            proposed = self.profile.speculation.draft_tokens - 1
            questions["accept_rate"] = RateFloor(floor=floors.accept_rate, proposed=proposed)
        if self.kept is not None and not self.profile.baseline.update:
            questions["baseline"] = NotWorse(baseline=self.kept.counts, margin=judging.margin)
        records = self.key is not None and "baseline" not in questions
        return Inquiry(
            questions=questions,
            planned=len(self.prompts.prompts),
            concurrency=self.profile.prompts.concurrency,
            error=judging.error,
            # A baseline is made of all prompts, so that later runs find theirs in it.
            sequential=judging.sequential and bool(questions) and not records,
        )

    @cached_property
    def measured(self) -> Measured:
        """Acceptance; a baseline is written or its history continued."""
        measured = measure_acceptance(
            self.client,
            self.prompts.prompts,
            self.profile.prompts,
            self.server,
            inquiry=self.inquiry,
            progress=self.progress,
        )
        self._when = datetime.now(UTC).isoformat(timespec="seconds")
        return measured

    @property
    def judgements(self) -> Judgements:
        """What is certain of the figures the profile asks about."""
        _ = self.measured
        judged = self.inquiry.judged
        return Judgements(error=self.inquiry.error, **judged)

    @cached_property
    def baseline(self) -> BaselineSeen | None:
        """The baseline this run was held against, or became; None where none is asked for."""
        if self.key is None:
            return None
        try:
            return self._held(self.key)
        except BaselineError as error:
            self.trouble = str(error)
        return BaselineSeen(path=self.profile.baseline.path, state="none", problem=self.trouble)

    def _held(self, own: Key) -> BaselineSeen:
        measured, kept = self.measured, self.kept
        if self.trouble:
            raise BaselineError(self.trouble)
        if kept is None or self.profile.baseline.update:
            return self._recorded(own, kept)
        differences = own.differences(kept.key)
        judged = self.inquiry.judged.get("baseline")
        if not differences:
            verdict = judged.outcome.value if judged else "unknown"
            entry = summary(measured.acceptance, own, when=self._when, verdict=verdict)
            write(kept, entry)
        return BaselineSeen(
            path=str(kept.path),
            state="unlike" if differences else "alike",
            recorded=kept.recorded,
            accept_length=kept.accept_length,
            per_position=kept.per_position,
            margin=self.profile.judging.margin,
            pairs=sum(1 for s in measured.samples if key(s) in kept.counts),
            differences=differences,
        )

    def _recorded(self, own: Key, kept: Record | None) -> BaselineSeen:
        acceptance = self.measured.acceptance
        given = Path(self.profile.baseline.path)
        path = given if given.is_file() or given.suffix == ".json" else given / own.file
        seen = BaselineSeen(path=str(path), state="none", margin=self.profile.judging.margin)
        near = nearest(path.parent, own) if kept is None else None
        if near is not None:
            seen = replace(seen, nearest=str(near[0]), differences=near[1])
        unfit = acceptance.missing or acceptance.failed_requests or acceptance.contradictions
        if unfit or acceptance.accept_length is None:
            return replace(seen, problem="this run is not whole enough to become one")
        entry = summary(acceptance, own, when=self._when, verdict="baseline")
        made = record(path, own, acceptance, self.measured.samples, self._when)
        write(made, entry)
        return replace(
            seen,
            state="written" if kept is None else "updated",
            recorded=self._when,
            accept_length=acceptance.accept_length.value,
            per_position=acceptance.per_position,
        )

    @property
    def history(self) -> tuple[Mapping[str, object], ...]:
        """Summaries of the runs before this one, of its key but for the SGLang version."""
        seen = self.baseline
        if seen is None or self.key is None:
            return ()
        path = Path(seen.path)
        entries = list(past(path if path.is_dir() else path.parent, self.key))
        if seen.state in KEPT:
            own = (self._when, self.key.sglang)
            at = [n for n, e in enumerate(entries) if (e.get("recorded"), e["sglang"]) == own]
            for last in at[-1:]:
                del entries[last]
        return tuple(entries)

    @cached_property
    def throughput(self) -> Throughput:
        """Output speed; kept in the baseline's history where there is one of this key."""
        measured = measure_throughput(
            self.client, self.load, self.server.names, progress=self.progress
        )
        seen = self.baseline if "baseline" in self.__dict__ else None
        if seen is not None and seen.state in KEPT:
            add_speed(Path(seen.path), self._when, measured)
        return measured

    @property
    def load(self) -> Load:
        """What is sent to measure speed."""
        return Load(
            prompts=self.prompts.prompts,
            wanted=self.profile.speed,
            form=self.profile.prompts,
            fresh=not self.profile.server.url,
        )
