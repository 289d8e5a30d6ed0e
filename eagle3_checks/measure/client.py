"""Requests to a running server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import requests

from eagle3_checks.measure.prompts import Prompt

ERROR_TEXT = 300


class RequestFailed(RuntimeError):  # noqa: N818 - it names the event
    """A request that brought no usable answer; the message says which and why."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One finished request."""

    prompt: Prompt
    text: str
    meta: Mapping[str, Any]
    """SGLang's ``meta_info``."""


class Client:
    """Sends greedy requests to one server, a connection a thread; usable from many threads."""

    def __init__(self, url: str, *, api_key: str = "", timeout: float = 300.0) -> None:
        """`timeout` is in seconds, for each request."""
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = timeout
        self._local = threading.local()
        self._sessions: list[requests.Session] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._lock:
            for session in self._sessions:
                session.close()
            self._sessions.clear()

    def generate(
        self, prompt: Prompt, *, max_new_tokens: int, ignore_eos: bool = False, chat: bool = False
    ) -> Answer:
        """Ask for a greedy continuation; `chat` applies the server's chat template.

        Raises RequestFailed.
        """
        if chat or prompt.messages:
            return self._chat(prompt, max_new_tokens, ignore_eos=ignore_eos)
        body = {
            "text": prompt.text,
            "sampling_params": {
                "temperature": 0,
                "max_new_tokens": max_new_tokens,
                "ignore_eos": ignore_eos,
            },
        }
        answer = self._post("/generate", body, prompt.id)
        meta = answer.get("meta_info")
        if not isinstance(meta, dict):
            raise RequestFailed(f"{prompt.id}: the answer of /generate has no meta_info")
        return Answer(prompt=prompt, text=str(answer.get("text", "")), meta=meta)

    def _chat(self, prompt: Prompt, max_new_tokens: int, *, ignore_eos: bool) -> Answer:
        body = {
            "model": "default",
            "messages": list(prompt.messages) or [{"role": "user", "content": prompt.text}],
            "temperature": 0,
            "max_tokens": max_new_tokens,
            "ignore_eos": ignore_eos,
            "return_meta_info": True,
        }
        answer = self._post("/v1/chat/completions", body, prompt.id)
        try:
            choice = answer["choices"][0]
            meta = choice.get("meta_info")
            text = str(choice["message"].get("content") or "")
        except (LookupError, TypeError, AttributeError) as error:
            raise RequestFailed(f"{prompt.id}: a chat answer without choices: {error}") from error
        if not isinstance(meta, dict):
            raise RequestFailed(
                f"{prompt.id}: this server's chat answers carry no meta_info, so acceptance cannot "
                "be counted; set prompts.chat_template = false and give prompts as text"
            )
        return Answer(prompt=prompt, text=text, meta=meta)

    def _post(self, path: str, body: Mapping[str, Any], prompt_id: str) -> dict[str, Any]:
        try:
            response = self._session().post(self._url + path, json=body, timeout=self._timeout)
        except requests.RequestException as error:
            raise RequestFailed(f"{prompt_id}: {path}: {type(error).__name__}: {error}") from error
        if response.status_code != requests.codes.ok:
            shown = response.text[:ERROR_TEXT]
            raise RequestFailed(f"{prompt_id}: {path} answered {response.status_code}: {shown}")
        try:
            answer = response.json()
        except ValueError as error:
            raise RequestFailed(f"{prompt_id}: {path} answered no JSON: {error}") from error
        if not isinstance(answer, dict):
            raise RequestFailed(f"{prompt_id}: {path} answered {type(answer).__name__}, no object")
        return answer

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = requests.Session()
            session.trust_env = False  # a proxy must never see loopback traffic
            session.headers.update(self._headers)
            self._local.session = session
            with self._lock:
                self._sessions.append(session)
        return session


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
