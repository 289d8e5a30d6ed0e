"""A target's aux states from its own server, kept on disk: for targets that fit nowhere else.

The server runs without a drafter (``--enable-return-aux-hidden-states``) and answers each prompt
with the states that a drafter would have been handed.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle3_checks.measure.progress import SILENT, Progress
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.measure.transport import Transport, TransportError

FLOAT_BYTES = 4
GIGABYTE = 10**9


class StatesError(RuntimeError):
    """States that could not be had; the message says of which prompt and why."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One prompt's text and where its states lie."""

    prompt_id: str
    prompt_set: str
    tokens: tuple[int, ...]
    prompt_tokens: int
    width: int
    """Numbers a position: all aux states, concatenated."""
    path: Path
    """Float32, little-endian, one row a position; the last token has none."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """A folder of recorded states; what it holds already is not asked for again."""

    folder: Path
    subject: str
    """What the states are of: anything that changes when they would."""
    most_bytes: int

    def find(self, prompt: Prompt, new_tokens: int) -> Recorded | None:
        """Return what was recorded for a prompt, if it was, and whole."""
        stem = self._stem(prompt, new_tokens)
        try:
            kept = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
            path = stem.with_suffix(".f32")
            found = Recorded(
                prompt_id=prompt.id,
                prompt_set=prompt.set,
                tokens=tuple(kept["tokens"]),
                prompt_tokens=kept["prompt_tokens"],
                width=kept["width"],
                path=path,
            )
            rows = len(found.tokens) - 1
            whole = path.stat().st_size == rows * found.width * FLOAT_BYTES
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if whole else None

    def used(self) -> int:
        """Return how many bytes the states take."""
        return sum(path.stat().st_size for path in self.folder.glob("*.f32"))

    def keep(
        self, prompt: Prompt, new_tokens: int, tokens: list[int], count: int, rows: list[Any]
    ) -> Recorded:
        """Write one prompt's states; what describes them comes last, so that it never lies."""
        stem = self._stem(prompt, new_tokens)
        self.folder.mkdir(parents=True, exist_ok=True)
        values = array("f")
        for row in rows:
            values.extend(row)
        if sys.byteorder == "big":
            values.byteswap()
        _write(stem.with_suffix(".f32"), values.tobytes())
        kept = {
            "prompt_id": prompt.id,
            "tokens": tokens,
            "prompt_tokens": count,
            "width": len(rows[0]),
        }
        _write(stem.with_suffix(".json"), json.dumps(kept).encode())
        found = self.find(prompt, new_tokens)
        if found is None:
            raise StatesError(f"{stem}: the states just written cannot be read back")
        return found

    def _stem(self, prompt: Prompt, new_tokens: int) -> Path:
        parts = [self.subject, prompt.set, prompt.id, prompt.text, list(prompt.messages)]
        canon = json.dumps([*parts, new_tokens], sort_keys=True)
        return self.folder / hashlib.sha256(canon.encode()).hexdigest()[:24]


def record_states(  # noqa: PLR0913 - what is sent, to whom, where it goes and who watches
    transport: Transport,
    prompts: Iterable[Prompt],
    new_tokens: int,
    store: Store,
    *,
    chat: bool = False,
    progress: Progress = SILENT,
) -> tuple[list[Recorded], str]:
    """Have each prompt continued by `new_tokens`, past end tokens; return the states of all.

    Also returns why not all are there, where the store is full. What is there already is not sent.
    Raises StatesError.
    """
    wanted = list(prompts)
    found: list[Recorded] = []
    progress.begin("aux states", len(wanted))
    try:
        for prompt in wanted:
            kept = store.find(prompt, new_tokens)
            if kept is None:
                if _full(store, found):
                    return found, f"the states had reached {store.most_bytes / GIGABYTE:g} GB"
                kept = _record(transport, prompt, new_tokens, store, chat=chat)
            found.append(kept)
            progress.update(len(found), None)
    finally:
        progress.end()
    return found, ""


def _full(store: Store, found: list[Recorded]) -> bool:
    """Whether one more prompt, as long as the longest so far, would be too much."""
    longest = max((r.width * len(r.tokens) * FLOAT_BYTES for r in found), default=0)
    return store.used() + longest > store.most_bytes


def _record(
    transport: Transport, prompt: Prompt, new_tokens: int, store: Store, *, chat: bool
) -> Recorded:
    ids = _tokenised(transport, prompt, chat=chat)
    body = {
        "input_ids": ids,
        "return_hidden_states": True,
        "sampling_params": {"temperature": 0, "max_new_tokens": new_tokens, "ignore_eos": True},
    }
    answer = _ask(transport, "/generate", body, prompt)
    states = (answer.get("meta_info") or {}).get("hidden_states")
    written = answer.get("output_ids")
    if not isinstance(states, list) or not isinstance(written, list):
        raise StatesError(
            f"{prompt.id}: the answer holds no hidden states; start the server with "
            "--speculative-algorithm EAGLE3 --enable-return-aux-hidden-states (SGLang 0.5.23 is "
            "the first to know the latter)"
        )
    rows = [row for part in states for row in (part if isinstance(part[0], list) else [part])]
    tokens = [*ids, *written]
    if len(rows) != len(tokens) - 1 or len({len(row) for row in rows}) != 1:
        raise StatesError(
            f"{prompt.id}: {len(rows)} states for {len(tokens)} tokens; start the server with "
            "--disable-radix-cache, or a prefix that is cached has none"
        )
    return store.keep(prompt, new_tokens, tokens, len(ids), rows)


def _tokenised(transport: Transport, prompt: Prompt, *, chat: bool) -> list[int]:
    body: dict[str, Any] = {"prompt": prompt.text}
    if prompt.messages or chat:
        body = {"messages": list(prompt.messages) or [{"role": "user", "content": prompt.text}]}
    tokens = _ask(transport, "/tokenize", body, prompt).get("tokens")
    if not isinstance(tokens, list) or not tokens:
        raise StatesError(f"{prompt.id}: /tokenize returned no tokens")
    return tokens


def _ask(
    transport: Transport, path: str, body: Mapping[str, Any], prompt: Prompt
) -> Mapping[str, Any]:
    try:
        answer = json.loads(transport.post(path, json.dumps(body).encode()))
    except TransportError as error:
        raise StatesError(f"{prompt.id}: {error}") from error
    except ValueError as error:
        raise StatesError(f"{prompt.id}: {path} answered no JSON: {error}") from error
    if not isinstance(answer, dict):
        raise StatesError(f"{prompt.id}: {path} answered {type(answer).__name__}, no object")
    return answer


def _write(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
