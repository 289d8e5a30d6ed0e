"""Holding figures against bounds while prompts come in, and stopping once that is certain.

Each question is asked at every look of a group-sequential plan (`spending`). Its interval at a look
is a repeated one (Jennison and Turnbull, JRSS B 51, 1989): all looks together hold the truth with
the stated error, so stopping at any of them, for whatever reason, is as good as at any other. A
verdict once certain is kept; nothing is tried again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Protocol

from eagle3_checks.facts import Interval, RequestSample
from eagle3_checks.measure.spending import look_sizes, nominal_levels
from eagle3_checks.measure.statistics import student_t
from eagle3_checks.verdict import Judgement, Outcome

POWER = 0.8
START_WEIGHT = 4
"""Prompts that the assumed spread counts for while few are in."""
START_SPREAD = 0.2
"""Assumed standard deviation between prompts, as a share of the accept length. It can only widen an
interval: the first prompts may all happen to be alike."""
START_SPREAD_PAIRED = 0.1

PromptKey = tuple[str, str]
"""Set and id of a prompt."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure that is the mean of independent prompts, as far as a look needs it."""

    value: float
    bound: float
    prompts: int
    error: float
    """Standard error."""
    least: float = -math.inf
    """What the figure cannot fall below, nor its interval."""


class Question(Protocol):
    """Something to be held against a bound."""

    def estimate(self, samples: Sequence[RequestSample]) -> Estimate | None:
        """Return the figure over these prompts and its bound; None where there is none yet."""
        ...


@dataclass(frozen=True, kw_only=True)
class LengthFloor:
    """Whether the accept length reaches a floor."""

    floor: float

    def estimate(self, samples: Sequence[RequestSample]) -> Estimate | None:
        """Return 1 + correct drafts / verify steps."""
        pairs = [(s.correct_drafts, s.verify_steps) for s in samples if s.verify_steps]
        return _ratio(pairs, offset=1.0, bound=self.floor, unit=1.0)


@dataclass(frozen=True, kw_only=True)
class RateFloor:
    """Whether the accept rate reaches a floor."""

    floor: float
    proposed: int
    """Drafts proposed by a verify step."""

    def estimate(self, samples: Sequence[RequestSample]) -> Estimate | None:
        """Return correct drafts / proposed drafts."""
        pairs = [(s.correct_drafts, s.proposed_drafts) for s in samples if s.proposed_drafts]
        return _ratio(pairs, offset=1 / self.proposed, bound=self.floor, unit=1 / self.proposed)


@dataclass(frozen=True, kw_only=True)
class NotWorse:
    """Whether the accept length is at most a margin below that of an earlier run.

    Paired by prompt: the difference of the two linearised ratios has one value a prompt, in which
    what makes the prompt easy or hard for both cancels out.
    """

    baseline: Mapping[PromptKey, tuple[int, int]]
    """Verify steps and correct drafts of each prompt in the earlier run."""
    margin: float
    """Share of the earlier accept length that may be lost."""

    def estimate(self, samples: Sequence[RequestSample]) -> Estimate | None:
        """Return accept length / that of the earlier run over the same prompts, less 1."""
        both = [
            (s.verify_steps, s.correct_drafts, *self.baseline[key(s)])
            for s in samples
            if s.verify_steps and self.baseline.get(key(s), (0, 0))[0]
        ]
        n = len(both)
        if n < 2:  # noqa: PLR2004 - no variance from one
            return None
        steps, correct, old_steps, old_correct = (math.fsum(c) for c in zip(*both, strict=True))
        now, before = 1 + correct / steps, 1 + old_correct / old_steps
        residuals = [
            (c + s - now * s) / now / (steps / n)
            - (oc + os - before * os) / before / (old_steps / n)
            for s, c, os, oc in both
        ]
        squares = math.fsum(r * r for r in residuals)
        ratio = now / before
        spread = _spread(squares, n, START_SPREAD_PAIRED) * ratio
        return Estimate(value=ratio - 1, bound=-self.margin, prompts=n, error=spread / math.sqrt(n))


@dataclass(kw_only=True)
class Inquiry:
    """The questions of one run, asked at each look until every one is answered."""

    questions: Mapping[str, Question]
    planned: int
    concurrency: int = 1
    error: float = 0.05
    sequential: bool = True
    """Whether a run may end before all planned prompts are in."""
    judged: dict[str, Judgement] = field(default_factory=dict)
    """What was certain when it became so, or is open still."""
    latest: dict[str, Judgement] = field(default_factory=dict)
    """The same over all prompts so far: its intervals, not its verdicts, are for showing."""

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of prompts after which the questions are asked."""
        if not self.sequential:
            return (self.planned,)
        return look_sizes(self.planned, concurrency=self.concurrency)

    def open(self) -> tuple[str, ...]:
        """Return the names of the questions that are not answered for certain."""
        return tuple(
            name
            for name in self.questions
            if name not in self.judged or self.judged[name].outcome is Outcome.OPEN
        )

    def look(self, number: int, samples: Sequence[RequestSample]) -> bool:
        """Ask what is open at look `number` (from 0); returns whether all is answered."""
        level = nominal_levels(self.looks, self.error)[number]
        still_open = self.open()
        for name, question in self.questions.items():
            estimate = question.estimate(samples)
            if estimate is not None and estimate.prompts > 1:
                steps = sum(s.verify_steps for s in samples)
                self.latest[name] = self._judge(estimate, level, number, steps)
                if name in still_open:
                    self.judged[name] = self.latest[name]
        return bool(self.questions) and not self.open()

    def _judge(self, seen: Estimate, level: float, number: int, steps: int) -> Judgement:
        half = student_t(1 - level, seen.prompts - 1) * seen.error
        low, high = max(seen.value - half, seen.least), seen.value + half
        outcome = Outcome.OPEN
        if low >= seen.bound:
            outcome = Outcome.REACHED
        elif high < seen.bound:
            outcome = Outcome.MISSED
        planned = max(self.planned, seen.prompts)
        last = student_t(1 - nominal_levels(self.looks, self.error)[-1], planned - 1)
        whole = seen.error * math.sqrt(seen.prompts / planned)
        return Judgement(
            outcome=outcome,
            value=seen.value,
            bound=seen.bound,
            interval=Interval(
                value=seen.value, low=low, high=high, level=1 - self.error, n=seen.prompts
            ),
            prompts=seen.prompts,
            planned=self.planned,
            looks=number + 1,
            verify_steps=steps,
            detectable=(last + NormalDist().inv_cdf(POWER)) * whole,
        )


def key(sample: RequestSample) -> PromptKey:
    """Return what a prompt is recognised by in another run."""
    return sample.prompt_set, sample.prompt_id


def _ratio(
    pairs: Iterable[tuple[int, int]], *, offset: float, bound: float, unit: float
) -> Estimate | None:
    """Estimate a pooled ratio; `offset` + ratio is the accept length in units of `unit`."""
    seen = tuple(pairs)
    n = len(seen)
    total = math.fsum(b for _, b in seen)
    if not total:
        return None
    ratio = math.fsum(a for a, _ in seen) / total
    squares = math.fsum(((a - ratio * b) * n / total) ** 2 for a, b in seen)
    spread = _spread(squares, n, START_SPREAD * (ratio + offset))
    shown = ratio + offset if unit == 1 else ratio
    least = offset if unit == 1 else 0.0
    return Estimate(value=shown, bound=bound, prompts=n, error=spread / math.sqrt(n), least=least)


def _spread(squares: float, n: int, start: float) -> float:
    """Standard deviation between prompts, not below what the assumed one makes of it."""
    seen = squares / (n - 1) if n > 1 else 0.0
    mixed = (START_WEIGHT * start**2 + (n - 1) * seen) / (START_WEIGHT + n - 1)
    return math.sqrt(max(seen, mixed))
