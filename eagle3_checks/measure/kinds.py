"""Kinds of requests that have failed under speculation before: each is sent once.

The server must answer as it was asked, and an ordinary request afterwards.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from eagle3_checks.facts import RequestKind
from eagle3_checks.measure.asking import Output, greedy
from eagle3_checks.measure.client import Client, RequestFailed, RequestRefused

CHOICES = ("every token is the target's own choice", "some tokens are the drafter's choice")
"""What a constrained answer may be: whole sentences, so that the grammar ends the answer."""
ABORTED_TOKENS = 256
"""Tokens that are asked for and not waited for."""
HIDDEN_TOKENS = 8
FEW = (1, 2, 3)
_MESSAGE = re.compile(r'"message":\s*"((?:[^"\\]|\\.)+)')


@dataclass(frozen=True)
class Told:
    """How one answer compares with what was asked."""

    problem: str = ""
    open: str = ""


def measure_kinds(client: Client, outputs: Sequence[Output]) -> tuple[RequestKind, ...]:
    """Send one request of each kind, built on an answer that is known already."""
    known = max(outputs, key=lambda o: len(o.tokens), default=None)
    if known is None or len(known.tokens) <= max(FEW):
        return tuple(_unsent(kind, asked, "no long answer to build it on") for kind, asked in ASKED)
    found: list[RequestKind] = []
    gone = ""
    for kind, asked in ASKED:
        if gone:
            found.append(_unsent(kind, asked, gone))
            continue
        found.append(_sent(client, known, kind, asked))
        if not found[-1].survived:
            gone = f"not sent: the server was gone after {kind}"
    return tuple(found)


def _unsent(kind: str, asked: str, reason: str) -> RequestKind:
    return RequestKind(kind=kind, asked=asked, open=reason)


def _sent(client: Client, known: Output, kind: str, asked: str) -> RequestKind:
    seen = RequestKind(kind=kind, asked=asked)
    try:
        seen = replace(seen, **asdict(_KINDS[kind][1](client, known)))
    except RequestRefused as refusal:
        told = _MESSAGE.search(str(refusal))
        seen = replace(seen, refused=told[1] if told else str(refusal))
    except RequestFailed as failure:
        seen = replace(seen, problem=str(failure))
    try:
        client.ask("/generate", greedy(known.question.tokens, 2))
    except RequestFailed as failure:
        problem = seen.problem or f"the server does not answer afterwards: {failure}"
        return replace(seen, problem=problem, survived=False)
    return seen


def _logprobs(client: Client, known: Output) -> Told:
    body = greedy(known.question.tokens, len(known.tokens)) | {"return_logprob": True}
    answer = client.ask("/generate", body)
    tokens, meta = _tokens(answer), _meta(answer)
    rows = meta.get("output_token_logprobs")
    if not isinstance(rows, list):
        return Told(problem="the answer holds no output_token_logprobs")
    if len(rows) != len(tokens):
        return Told(problem=f"{len(rows)} log probabilities for {len(tokens)} tokens")
    for number, (row, token) in enumerate(zip(rows, tokens, strict=True)):
        logprob, named = (*row, None, None)[:2] if isinstance(row, list) else (None, None)
        if named != token:
            return Told(problem=f"log probability {number} is of token {named}, not of {token}")
        if not isinstance(logprob, int | float) or not math.isfinite(logprob) or logprob > 0:
            return Told(problem=f"log probability {number} is {logprob}")
    return Told()


def _schema(client: Client, known: Output) -> Told:
    schema = json.dumps({"enum": list(CHOICES)})
    answer = client.ask(
        "/generate", greedy(known.question.tokens, ABORTED_TOKENS, json_schema=schema)
    )
    text = str(answer.get("text", ""))
    try:
        value = json.loads(text)
    except ValueError:
        return Told(problem=f"the answer is not JSON: {text[:80]!r}")
    if value not in CHOICES:
        return Told(problem=f"the answer is {value!r}, which the schema does not allow")
    ended = _finish(answer)
    return Told() if ended == "stop" else Told(problem=f"it ended by {ended!r}, not by its grammar")


def _stop(client: Client, known: Output) -> Told:
    text = known.text
    at = len(text) // 2
    stop = text[at : at + 3]
    if len(stop) < 3 or "\ufffd" in stop:  # noqa: PLR2004 - the three characters above
        return Told(open="no text to take a stop string from")
    answer = client.ask("/generate", greedy(known.question.tokens, len(known.tokens), stop=[stop]))
    seen, wanted = str(answer.get("text", "")), text[: text.index(stop)]
    if stop in seen:
        return Told(problem=f"the answer goes on behind the stop string {stop!r}")
    if _finish(answer) != "stop":
        return Told(problem=f"it ended by {_finish(answer)!r}, not at the stop string {stop!r}")
    if seen.rstrip() != wanted.rstrip():
        return Told(problem=f"up to the stop string the answer is another: {seen[-40:]!r}")
    return Told()


def _abort(client: Client, known: Output) -> Told:
    name = f"eagle3-{uuid.uuid4()}"
    body = greedy(known.question.tokens, ABORTED_TOKENS, ignore_eos=True)
    last: Mapping[str, Any] = {}
    for number, event in enumerate(
        client.events("/generate", body | {"rid": name, "stream": True})
    ):
        if number == 0:
            client.post("/abort_request", {"rid": name})
        last = event
    tokens = _meta(last).get("completion_tokens")
    if _finish(last) == "abort":
        return Told()
    if tokens == ABORTED_TOKENS:
        return Told(problem=f"it went on to its {ABORTED_TOKENS} tokens")
    return Told(problem=f"it ended by {_finish(last)!r} after {tokens} tokens, not by its abort")


def _short(client: Client, known: Output) -> Told:
    for count in FEW:
        answer = client.ask("/generate", greedy(known.question.tokens, count))
        tokens, wanted = _tokens(answer), known.tokens[:count]
        if len(tokens) != count:
            return Told(problem=f"{len(tokens)} tokens instead of {count}")
        if _meta(answer).get("completion_tokens") != count:
            told = _meta(answer).get("completion_tokens")
            return Told(problem=f"completion_tokens is {told} for {count} tokens")
        if tuple(tokens) != wanted:
            return Told(problem=f"asked for {count}, the tokens are {tokens}, not {list(wanted)}")
    return Told()


def _hidden(client: Client, known: Output) -> Told:
    prompt = known.question.tokens[:HIDDEN_TOKENS]  # each token's state comes as text
    body = greedy(prompt, HIDDEN_TOKENS, ignore_eos=True) | {"return_hidden_states": True}
    answer = client.ask("/generate", body)
    rows, tokens = _meta(answer).get("hidden_states"), _tokens(answer)
    if not isinstance(rows, list):
        return Told(problem="the answer holds no hidden_states")
    if len(rows) != len(tokens):
        return Told(problem=f"{len(rows)} entries of hidden states for {len(tokens)} tokens")
    widths = {len(row[-1] if row and isinstance(row[-1], list) else row) for row in rows}
    if len(widths) > 1:
        return Told(problem=f"hidden states of several widths: {sorted(widths)}")
    return Told()


def _tokens(answer: Mapping[str, Any]) -> list[Any]:
    tokens = answer.get("output_ids")
    if not isinstance(tokens, list):
        raise RequestFailed("/generate answered without token ids")
    return tokens


def _meta(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = answer.get("meta_info")
    return meta if isinstance(meta, dict) else {}


def _finish(answer: Mapping[str, Any]) -> Any:
    reason = _meta(answer).get("finish_reason")
    return reason.get("type") if isinstance(reason, dict) else reason


_KINDS: Mapping[str, tuple[str, Callable[[Client, Output], Told]]] = {
    "logprobs": ("one finite log probability for each token", _logprobs),
    "json": ("one of two sentences, by a JSON schema", _schema),
    "stop": ("the text up to a stop string", _stop),
    "abort": ("an end before its last token, by /abort_request", _abort),
    "short": ("1, 2 and 3 tokens", _short),
    "hidden": ("one entry of hidden states for each token", _hidden),
}
ASKED: tuple[tuple[str, str], ...] = tuple((kind, asked) for kind, (asked, _) in _KINDS.items())
"""The kinds in the order in which they are sent, and what each asks for."""
