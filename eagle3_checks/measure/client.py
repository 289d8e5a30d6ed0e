"""Requests to a running server."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.measure.transport import ERROR_TEXT, Transport, TransportError

FLUSH_SECONDS = 10
"""How long SGLang may wait for its last batch to end before it empties its cache."""
BAD_REQUEST, SERVER_ERROR = 400, 500
_DONE = b"[DONE]"
_WORDS = re.compile(rb'"content":\s*"[^"]')
# Read without parsing the rest of an event. A quote inside a generated text is escaped, so this
# cannot be part of one.
_TOKENS = re.compile(rb'"completion_tokens":\s*(\d+)')


class RequestFailed(RuntimeError):  # noqa: N818 - it names the event
    """A request that brought no usable answer; the message says which and why."""


class RequestRefused(RequestFailed):
    """A request that the server understood and declined: HTTP 400 to 499."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One finished request."""

    prompt: Prompt
    text: str
    meta: Mapping[str, Any]
    """SGLang's ``meta_info``; of a streamed chat answer its ``usage``."""
    seconds: float = 0.0
    """From sending the request to the end of the answer."""
    first: float | None = None
    """Seconds to the first token; None where the answer was not streamed."""
    gaps: tuple[tuple[float, int], ...] = ()
    """Seconds from chunk to chunk, and the tokens that the later one brought."""


class Client:
    """Sends greedy requests to one server; usable from many threads."""

    def __init__(self, url: str, *, api_key: str = "", timeout: float = 300.0) -> None:
        """`timeout` is in seconds: the longest silence within a request."""
        self._transport = Transport(url.rstrip("/"), api_key=api_key, timeout=timeout)
        self._tokens = 0
        self._answers = 0
        self._counting = threading.Lock()

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def flush_cache(self) -> bool:
        """Let the server forget its cached prefixes; returns whether it did."""
        try:
            self._transport.post(f"/flush_cache?timeout={FLUSH_SECONDS}", b"")
        except TransportError:
            return False
        return True

    @property
    def requests(self) -> int:
        """Requests sent so far, answered or not."""
        return self._transport.requests

    @property
    def prompt_tokens(self) -> int | None:
        """Prompt tokens of all answers; None where a request brought none that tells them."""
        return self._tokens if self._answers == self._transport.requests else None

    def silence(self) -> float:
        """Return the seconds since the server was last heard; 0 where no request is in flight."""
        return self._transport.silence()

    def heard(self) -> None:
        """Note that the server has shown a sign of life elsewhere."""
        self._transport.heard()

    def abort(self, why: str) -> None:
        """Break all requests off, and fail those to come with this reason."""
        self._transport.abort(why)

    def post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Return the body of an answer. Raises RequestFailed, RequestRefused."""
        try:
            return self._transport.post(path, _bytes(body))
        except TransportError as error:
            raise _failed(error) from error

    def ask(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return an answer that is a JSON object. Raises RequestFailed, RequestRefused."""
        try:
            return _object(self.post(path, body))
        except ValueError as error:
            raise RequestFailed(f"{path} answered {error}") from error

    def events(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the JSON events of a stream. Raises RequestFailed, RequestRefused."""
        try:
            for _, event in self._transport.events(path, _bytes(body)):
                if event != _DONE:
                    yield _object(event)
        except TransportError as error:
            raise _failed(error) from error
        except ValueError as error:
            raise RequestFailed(f"{path} streamed {error}") from error

    def generate(
        self,
        prompt: Prompt,
        *,
        max_new_tokens: int,
        ignore_eos: bool = False,
        chat: bool = False,
        stream: bool = False,
    ) -> Answer:
        """Ask for a greedy continuation; `chat` applies the server's chat template.

        A streamed answer has times and no text. Raises RequestFailed.
        """
        talk = chat or bool(prompt.messages)
        body = _chat_body(prompt, max_new_tokens) if talk else _text_body(prompt, max_new_tokens)
        (body if talk else body["sampling_params"])["ignore_eos"] = ignore_eos
        path = "/v1/chat/completions" if talk else "/generate"
        try:
            if stream:
                return self._stream(path, body, prompt, talk=talk)
            begin = time.perf_counter()
            answer = _object(self._transport.post(path, _bytes(body)))
            seconds = time.perf_counter() - begin
        except TransportError as error:
            raise RequestFailed(f"{prompt.id}: {error}") from error
        except ValueError as error:
            raise RequestFailed(f"{prompt.id}: {path} answered {error}") from error
        text, meta = _read_chat(answer, prompt) if talk else _read_text(answer, prompt)
        self._count(meta)
        return Answer(prompt=prompt, text=text, meta=meta, seconds=seconds)

    def _count(self, meta: Mapping[str, Any]) -> None:
        tokens = meta.get("prompt_tokens")
        if isinstance(tokens, int):
            with self._counting:
                self._tokens += tokens
                self._answers += 1

    def _stream(self, path: str, body: dict[str, Any], prompt: Prompt, *, talk: bool) -> Answer:
        body["stream"] = True
        if talk:
            del body["return_meta_info"]  # SGLang refuses it for a stream; usage has the tokens
            body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        sent = _bytes(body)
        begin = at = time.perf_counter()
        first: float | None = None
        gaps: list[tuple[float, int]] = []
        seen, last, whole, uncounted = 0, b"", False, False
        for now, event in self._transport.events(path, sent):
            if event == _DONE:
                whole = True  # read on to the end: the connection is used again
                continue
            last = event
            found = _TOKENS.findall(event)
            if not found and _WORDS.search(event):
                # Before 0.5.6 the usage comes last: the time of the first words is all there is.
                first, uncounted = first if uncounted else now - begin, True
            tokens = int(found[-1]) if found else 0
            if tokens <= seen or uncounted:
                continue
            if first is None:
                first = now - begin
            else:
                gaps.append((now - at, tokens - seen))
            seen, at = tokens, now
        seconds = time.perf_counter() - begin
        if not whole:
            raise RequestFailed(f"{prompt.id}: the stream of {path} broke off after {seen} tokens")
        data = _object(last)
        meta = data.get("usage" if talk else "meta_info")
        if not isinstance(meta, dict) or first is None:
            shown = last[:ERROR_TEXT].decode("utf-8", "replace")
            raise RequestFailed(f"{prompt.id}: the stream of {path} ended without counts: {shown}")
        self._count(meta)
        return Answer(
            prompt=prompt, text="", meta=meta, seconds=seconds, first=first, gaps=tuple(gaps)
        )


def _text_body(prompt: Prompt, max_new_tokens: int) -> dict[str, Any]:
    return {
        "text": prompt.text,
        "sampling_params": {"temperature": 0, "max_new_tokens": max_new_tokens},
    }


def _chat_body(prompt: Prompt, max_new_tokens: int) -> dict[str, Any]:
    return {
        "model": "default",
        "messages": list(prompt.messages) or [{"role": "user", "content": prompt.text}],
        "temperature": 0,
        "max_tokens": max_new_tokens,
        "return_meta_info": True,
    }


def _read_text(answer: Mapping[str, Any], prompt: Prompt) -> tuple[str, Mapping[str, Any]]:
    meta = answer.get("meta_info")
    if not isinstance(meta, dict):
        raise RequestFailed(f"{prompt.id}: the answer of /generate has no meta_info")
    return str(answer.get("text", "")), meta


def _read_chat(answer: Mapping[str, Any], prompt: Prompt) -> tuple[str, Mapping[str, Any]]:
    try:
        choice = answer["choices"][0]
        meta = choice.get("meta_info")
        text = str(choice["message"].get("content") or "")
    except (LookupError, TypeError, AttributeError) as error:
        raise RequestFailed(f"{prompt.id}: a chat answer without choices: {error}") from error
    if not isinstance(meta, dict):
        raise RequestFailed(
            f"{prompt.id}: this server's chat answers carry no meta_info (SGLang has it from "
            "0.5.13 on), so acceptance cannot be counted; set prompts.chat_template = false and "
            "give prompts as text"
        )
    return text, meta


def _failed(error: TransportError) -> RequestFailed:
    refused = BAD_REQUEST <= error.status < SERVER_ERROR
    return (RequestRefused if refused else RequestFailed)(str(error))


def _bytes(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body).encode()


def _object(data: bytes) -> dict[str, Any]:
    """Return a JSON object, or raise ValueError with what stands there instead."""
    try:
        answer = json.loads(data)
    except ValueError as error:
        raise ValueError(f"no JSON: {error}") from error
    if not isinstance(answer, dict):
        raise ValueError(f"{type(answer).__name__}, no object")  # noqa: TRY004 - a bad answer
    return answer


def send_all(
    send: Callable[[Prompt], Answer], prompts: Iterable[Prompt], *, concurrency: int
) -> tuple[list[Answer], list[RequestFailed]]:
    """Send each prompt once, `concurrency` at a time; nothing is tried twice."""

    def attempt(prompt: Prompt) -> Answer | RequestFailed:
        try:
            return send(prompt)
        except RequestFailed as failure:
            return failure

    with ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="eagle3-client") as pool:
        outcomes = list(pool.map(attempt, prompts))
    answers = [o for o in outcomes if isinstance(o, Answer)]
    failures = [o for o in outcomes if isinstance(o, RequestFailed)]
    return answers, failures
