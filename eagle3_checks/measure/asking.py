"""Greedy requests by token ids, and the target's own scores of what was answered.

Prefill over prompt and answer gives the target's choice at every place, on the very server that
speculates: no second server is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from eagle3_checks.measure.client import Client, RequestFailed, RequestRefused
from eagle3_checks.measure.prompts import Prompt

BEST = 5
"""Of the target's likeliest tokens so many are asked for."""
Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True)
class Question:
    """One prompt as token ids."""

    id: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Output:
    """One answer."""

    question: Question
    tokens: tuple[int, ...]
    text: str
    cached: int
    """Prompt tokens that came from the prefix cache."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """What the target makes of one token; log probabilities in nats."""

    token: int
    logprob: float
    best: tuple[tuple[int, float], ...]
    """The target's likeliest tokens, the likeliest first."""

    def logprob_of(self, token: int) -> float | None:
        """Return a token's log probability, None where it was not told."""
        return dict([*self.best, (self.token, self.logprob)]).get(token)


Outputs = Mapping[str, Output]
Scores = Mapping[str, tuple[Score, ...]]


@dataclass
class Asking:
    """Greedy requests to one server; nothing is tried twice."""

    client: Client
    new_tokens: int
    failures: list[str] = field(default_factory=list)
    """What was wrong with the requests that failed."""

    def questions(self, prompts: Iterable[Prompt], first_line: str) -> tuple[Question, ...]:
        """Have the server tokenize prompts, each below a first line that is new to its cache.

        Raises RequestRefused where it does not; other failures are noted.
        """
        found = []
        for number, prompt in enumerate(prompts, start=1):
            text = prompt.text or "\n".join(str(m.get("content") or "") for m in prompt.messages)
            body = {"prompt": f"# {number} {first_line}\n{text}"}
            try:
                tokens = self.client.ask("/tokenize", body).get("tokens")
                found.append(Question(id=prompt.id, tokens=_ids(tokens, "/tokenize")))
            except RequestRefused:
                raise
            except RequestFailed as failure:
                self.failures.append(f"{prompt.id}: {failure}")
        return tuple(found)

    def run(self, questions: Sequence[Question], concurrency: int = 1) -> dict[str, Output]:
        """Answer questions, so many at a time; one that fails is left out and noted."""
        answers = self._all(self._answer, questions, concurrency)
        return {answer.question.id: answer for answer in answers}

    def scores(self, outputs: Outputs) -> dict[str, tuple[Score, ...]]:
        """Score every token of each answer by prefill, by the id of its question."""
        return dict(self._all(self._score, tuple(outputs.values()), max(1, len(outputs))))

    def _all(
        self, ask: Callable[[Item], Found], items: Sequence[Item], concurrency: int
    ) -> list[Found]:
        def attempt(item: Item) -> Found | None:
            try:
                return ask(item)
            except RequestFailed as failure:
                self.failures.append(str(failure))
                return None

        with ThreadPoolExecutor(
            max_workers=concurrency, thread_name_prefix="eagle3-parity"
        ) as pool:
            return [found for found in pool.map(attempt, items) if found is not None]

    def _answer(self, question: Question) -> Output:
        answer = self.client.ask("/generate", greedy(question.tokens, self.new_tokens))
        meta = answer.get("meta_info")
        cached = meta.get("cached_tokens") if isinstance(meta, dict) else None
        return Output(
            question=question,
            tokens=_ids(answer.get("output_ids"), f"{question.id}: /generate"),
            text=str(answer.get("text", "")),
            cached=cached if type(cached) is int else 0,
        )

    def _score(self, output: Output) -> tuple[str, tuple[Score, ...]]:
        prompt, name = output.question.tokens, output.question.id
        if not output.tokens:
            return name, ()
        body = greedy(prompt + output.tokens, 1) | {
            "return_logprob": True,
            "logprob_start_len": len(prompt) - 1,
            "top_logprobs_num": BEST,
        }
        meta = self.client.ask("/generate", body).get("meta_info")
        try:
            scores = tuple(_read_scores(meta, len(output.tokens)))
        except (TypeError, KeyError, ValueError, IndexError) as error:
            what = f"{type(error).__name__}: {error}"
            raise RequestFailed(f"{name}: prefill brought no log probabilities ({what})") from error
        if tuple(s.token for s in scores) != output.tokens:
            raise RequestFailed(f"{name}: prefill scored other tokens than it was sent")
        return name, scores


def greedy(tokens: Sequence[int], new_tokens: int, **sampling: Any) -> dict[str, Any]:
    """Return the body of a greedy request for so many new tokens."""
    wanted = {"temperature": 0, "max_new_tokens": new_tokens, **sampling}
    return {"input_ids": list(tokens), "sampling_params": wanted}


def _ids(value: Any, where: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(token) is int for token in value):
        raise RequestFailed(f"{where} answered without token ids")
    return tuple(value)


def _read_scores(meta: Any, count: int) -> Iterable[Score]:
    """Read the last `count` of the scored prompt tokens."""
    tokens = meta["input_token_logprobs"][-count:]
    tops = meta["input_top_logprobs"][-count:]
    for (logprob, token, *_), top in zip(tokens, tops, strict=True):
        best = sorted(((int(t), float(p)) for p, t, *_ in top), key=lambda pair: -pair[1])
        yield Score(token=int(token), logprob=float(logprob), best=tuple(best))
