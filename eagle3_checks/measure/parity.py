"""Losslessness of a server: its answers against the target's scores, and against themselves."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest

from eagle3_checks.facts import Comparison, Divergence, Parity, ZeroRun
from eagle3_checks.measure.asking import Asking, Output, Outputs, Question, Score, Scores
from eagle3_checks.measure.client import Client
from eagle3_checks.measure.kinds import measure_kinds
from eagle3_checks.measure.prompts import Prompt

END = -1
"""Stands for a token where an answer has ended."""
SHORTEST_RUN = 4
"""Tokens 0 in a row that are worth telling."""
NO_REUSE = (
    "no prompt token came from the prefix cache the second time (it is off, or the prompts are "
    "shorter than one of its pages)"
)


@dataclass
class ParityRun:
    """A few prompts, sent again and again to one server."""

    asking: Asking
    questions: tuple[Question, ...]
    first: dict[str, Output]
    """Answers to prompts that were new to the prefix cache."""
    scores: dict[str, tuple[Score, ...]]
    """The target's of the first answers."""

    @classmethod
    def of(
        cls, client: Client, prompts: Sequence[Prompt], *, new_tokens: int, first_line: str
    ) -> ParityRun:
        """Send each prompt once, below a first line that is new to the server; score the answers.

        Raises RequestRefused where the server has no tokenizer.
        """
        asking = Asking(client, new_tokens)
        questions = asking.questions(prompts, first_line)
        first = asking.run(questions)
        return cls(asking, questions, first, asking.scores(first))

    def parity(self, dtype: str) -> Parity:
        """Send each prompt three times more, twice in the same way, then all at once."""
        first, concurrency = self.first, max(1, len(self.questions))
        second, third = self.asking.run(self.questions), self.asking.run(self.questions)
        together = self.asking.run(self.questions, concurrency)
        both = first.keys() & second.keys()
        reused = sum(max(0, second[name].cached - first[name].cached) for name in both)
        cached = Comparison(missing=NO_REUSE)
        if reused:
            cached = against_each_other(first, second, self.scores)
        return Parity(
            dtype=dtype,
            scored=against_scores(first, self.scores),
            again=against_each_other(second, third, self.scores),
            together=against_each_other(third, together, self.scores),
            concurrency=concurrency,
            cached=cached,
            cached_tokens=reused,
            zero_runs=tuple(r for outputs in (first, together) for r in zero_runs(outputs)),
            kinds=measure_kinds(self.asking.client, list(third.values())),
            failures=tuple(self.asking.failures),
        )

    def against(self, client: Client) -> Comparison:
        """Send the prompts to another server, and hold its answers against the first ones."""
        other = Asking(client, self.asking.new_tokens)
        answers = other.run(self.questions)
        if not answers and other.failures:
            return Comparison(missing=other.failures[0])
        return against_each_other(self.first, answers, self.scores)


def first_line(*, launched: bool) -> str:
    """Return a line that no prompt of this server has begun with so far.

    A launched server has seen none of these, so that runs repeat themselves; on any other a run
    before this one may have left its prefixes.
    """
    return "Seen for the first time" if launched else f"Seen for the first time {uuid.uuid4()}"


def against_scores(outputs: Outputs, scores: Scores) -> Comparison:
    """Hold each token against the target's own choice after the same text."""
    known = [(o, scores[name]) for name, o in outputs.items() if scores.get(name)]
    if not known:
        return Comparison(missing="no answer was scored")
    found = (
        Divergence(
            prompt_id=output.question.id,
            index=index,
            token=score.token,
            other=score.best[0][0],
            margin=score.best[0][1] - score.logprob,
        )
        for output, row in known
        for index, score in enumerate(row)
        if score.best[0][0] != score.token
    )
    return Comparison(
        prompts=len(known), tokens=sum(len(row) for _, row in known), divergences=tuple(found)
    )


def against_each_other(one: Outputs, other: Outputs, scores: Scores) -> Comparison:
    """Hold the answers of two runs against each other; the first difference of each counts."""
    both = [name for name in one if name in other]
    if not both:
        return Comparison(missing="no prompt was answered in both runs")
    pairs = [(one[name], other[name], scores.get(name, ())) for name in both]
    return Comparison(
        prompts=len(both),
        tokens=sum(min(len(a.tokens), len(b.tokens)) for a, b, _ in pairs),
        divergences=tuple(d for pair in pairs for d in _first_difference(*pair)),
    )


def _first_difference(one: Output, other: Output, scores: Sequence[Score]) -> Iterator[Divergence]:
    """Yield the first difference; the scores are those of an answer that begins like both."""
    places = enumerate(zip_longest(one.tokens, other.tokens, fillvalue=END))
    index, (token, instead) = next((p for p in places if p[1][0] != p[1][1]), (-1, (END, END)))
    if index < 0:
        return
    alike = tuple(s.token for s in scores[:index]) == one.tokens[:index]
    margin, floor = None, 0.0
    if alike and index < len(scores):
        score = scores[index]
        seen = [score.logprob_of(token), score.logprob_of(instead)]
        known = [p for p in seen if p is not None]
        if len(known) == len(seen):
            margin = abs(known[0] - known[1])
        elif len(score.best) > 1:
            floor = score.best[0][1] - score.best[-1][1]
    yield Divergence(
        prompt_id=one.question.id,
        index=index,
        token=token,
        other=instead,
        margin=margin,
        floor=floor,
    )


def zero_runs(outputs: Outputs) -> Iterator[ZeroRun]:
    """Yield every run of four or more tokens 0."""
    for output in outputs.values():
        index = 0
        for token, group in groupby(output.tokens):
            length = sum(1 for _ in group)
            if token == 0 and length >= SHORTEST_RUN:
                yield ZeroRun(prompt_id=output.question.id, index=index, length=length)
            index += length
