"""The few requests that starting and describing a server take."""

from __future__ import annotations

import os
import re
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import urlsplit

import requests

_INFO_PATHS = ("/server_info", "/get_server_info")
_LOAD_PATHS = ("/v1/loads", "/get_load")
_MODEL_PATHS = ("/model_info", "/get_model_info")
INFO_SECONDS = 30.0
"""`/server_info` asks every scheduler and waits for a busy one."""
PROBE_TOKENS = 8
# Any vocabulary has these ids, and a server without a tokenizer takes nothing but ids.
_PROBE_IDS = tuple(range(1, 9))


class AnswerError(RuntimeError):
    """An answer that is not what SGLang gives; the message holds status and beginning of body."""

    def __init__(self, message: str, status: int = 200) -> None:
        super().__init__(message)
        self.status = status


def ca_file() -> str:
    """Return the file of authorities that the environment names for https, or nothing."""
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


class Endpoint:
    """One server's URL, spoken to directly: proxies of the environment are passed over."""

    def __init__(self, url: str, api_key: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an http:// or https:// address")
        if parts.username or parts.password:
            raise ValueError("a server's address must not hold a password")
        self.url = url.rstrip("/")
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = ca_file() or True
        if api_key:
            self._session.headers["Authorization"] = f"Bearer {api_key}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._session.close()

    def health(self, timeout: float) -> int:
        """Return the status of ``/health``: 200 answering, 503 still warming up."""
        with self._session.get(f"{self.url}/health", timeout=timeout) as answer:
            return answer.status_code

    def working(self, timeout: float) -> bool:
        """Whether the schedulers answer within `timeout` seconds, requests in flight or not.

        ``/health_generate`` comes back as soon as any token does, so that a server that is slow
        under load is told from one that hangs; where it is unknown, a few tokens are generated.
        """
        try:
            with self._session.get(f"{self.url}/health_generate", timeout=timeout) as answer:
                if answer.status_code != HTTPStatus.NOT_FOUND:
                    return answer.ok
            self.probe(timeout)
        except (AnswerError, requests.RequestException):
            return False
        return True

    def flush(self, timeout: float) -> str:
        """Empty the prefix cache of a server of our own; return why not, or nothing."""
        url = f"{self.url}/flush_cache"
        with self._session.post(url, params={"timeout": timeout}, timeout=2 * timeout) as answer:
            return (
                ""
                if answer.ok
                else f"POST /flush_cache answered {answer.status_code}: "
                + (answer.text[:300].strip())
            )

    def loads(self) -> list[dict[str, Any]]:
        """Return the load of each scheduler; empty where the release does not tell."""
        for path in _LOAD_PATHS:
            with self._session.get(f"{self.url}{path}", timeout=INFO_SECONDS) as answer:
                if answer.status_code == HTTPStatus.NOT_FOUND:
                    continue
                data = _json(answer)
            listed = data.get("loads") if isinstance(data, dict) else data
            return [load for load in listed or () if isinstance(load, dict)]
        return []

    def counter(self, name: str) -> float | None:
        """Return the sum of a Prometheus counter over its labels; None where it is not exposed."""
        try:
            with self._session.get(f"{self.url}/metrics", timeout=INFO_SECONDS) as answer:
                text = answer.text if answer.ok else ""
        except requests.RequestException:
            return None
        lines = (line for line in text.splitlines() if re.match(rf"{re.escape(name)}[{{ ]", line))
        values = [float(line.split()[-1]) for line in lines]
        return sum(values) if values else None

    def probe(self, timeout: float) -> dict[str, Any]:
        """Generate a few tokens greedily and return the answer's ``meta_info``.

        Raises AnswerError where the server refuses, requests' exceptions where it cannot be
        reached or takes longer than `timeout` seconds.
        """
        body = {
            "input_ids": list(_PROBE_IDS),
            "sampling_params": {
                "max_new_tokens": PROBE_TOKENS,
                "temperature": 0,
                "ignore_eos": True,
            },
        }
        with self._session.post(f"{self.url}/generate", json=body, timeout=timeout) as answer:
            data = _json(answer)
        data = data[0] if isinstance(data, list) and data else data
        meta = data.get("meta_info") if isinstance(data, dict) else None
        if not isinstance(meta, dict):
            raise AnswerError(f"POST /generate answered without meta_info: {str(data)[:300]}")
        return meta

    def info(self) -> dict[str, Any]:
        """Return ``/server_info``, raw; it may hold secrets."""
        return self._first(_INFO_PATHS)

    def model_info(self) -> dict[str, Any]:
        """Return ``/model_info``, raw."""
        return self._first(_MODEL_PATHS)

    def _first(self, paths: tuple[str, ...]) -> dict[str, Any]:
        """Return the JSON of the first path that the server's release has."""
        for path in paths:
            with self._session.get(f"{self.url}{path}", timeout=INFO_SECONDS) as answer:
                if answer.status_code == HTTPStatus.NOT_FOUND and path != paths[-1]:
                    continue
                data = _json(answer)
            if isinstance(data, dict):
                return data
        raise AnswerError(f"GET {paths[-1]} answered something else than a JSON object")


def _json(answer: requests.Response) -> Any:
    where = f"{answer.request.method} {answer.request.path_url}"
    if not answer.ok:
        message = f"{where} answered {answer.status_code}: {answer.text[:500]}"
        raise AnswerError(message, answer.status_code)
    try:
        return answer.json()
    except requests.JSONDecodeError as error:
        raise AnswerError(f"{where} answered no JSON: {answer.text[:300]!r}") from error
