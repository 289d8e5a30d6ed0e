"""Prompt sets: shipped ones by name, others as JSONL files."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle3_checks import shipped
from eagle3_checks.profile import Prompts

MAX_LINE_BYTES = 4 << 20


class PromptError(ValueError):
    """A prompt set that cannot be used; the message names the file and line."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One prompt: raw text, or chat messages."""

    id: str
    set: str
    text: str = ""
    messages: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class PromptSet:
    """The prompts of a run, and the hash that says two runs used the same ones."""

    prompts: tuple[Prompt, ...]
    sha256: str


def load_prompts(wanted: Prompts) -> PromptSet:
    """Read the sets a profile names, `wanted.limit` prompts of each.

    A line is an object with ``text`` or ``messages``, and optionally ``id`` and ``set``. No two
    prompts share both: each is one unit of the intervals, and found again in a baseline by them.
    Raises PromptError.
    """
    prompts: list[Prompt] = []
    places: dict[tuple[str, str], str] = {}
    for name in wanted.sets:
        path = _find(name)
        lines = _read(path)
        chosen = lines[: wanted.limit] if wanted.limit else lines
        for number, line in chosen:
            prompt, where = _prompt(path, number, line), f"{path}:{number}"
            if (prompt.set, prompt.id) in places:
                raise PromptError(
                    f"{where}: id {prompt.id!r} of set {prompt.set!r} stands at "
                    f"{places[prompt.set, prompt.id]} already; give each prompt an id of its own, "
                    "and name no set twice"
                )
            places[prompt.set, prompt.id] = where
            prompts.append(prompt)
    if not prompts:
        raise PromptError(f"no prompts in {', '.join(wanted.sets) or 'an empty list of sets'}")
    canon = json.dumps([[p.id, p.set, p.text, list(p.messages)] for p in prompts], sort_keys=True)
    return PromptSet(prompts=tuple(prompts), sha256=hashlib.sha256(canon.encode()).hexdigest())


def _find(name: str) -> Path:
    with contextlib.suppress(OSError, RuntimeError):  # a name that no path can have, ~nobody
        for path in (
            Path(name).expanduser(),
            shipped.shipped("fixtures", "prompts", f"{name}.jsonl"),
        ):
            if path.is_file():
                return path
    known = ", ".join(shipped.names("prompts", ".jsonl"))
    raise PromptError(f"no prompt set {name!r}: no such file, and the shipped ones are {known}")


def _read(path: Path) -> list[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            lines = [(n, line) for n, line in enumerate(file, start=1) if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    return lines


def _prompt(path: Path, number: int, line: str) -> Prompt:
    where = f"{path}:{number}"
    if len(line) > MAX_LINE_BYTES:
        raise PromptError(f"{where}: longer than 4 MiB")
    try:
        entry = json.loads(line, parse_constant=_no_number)
        json.dumps(entry, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except UnicodeEncodeError as error:
        raise PromptError(f"{where}: holds half a surrogate pair, which is no text") from error
    except (ValueError, RecursionError) as error:
        raise PromptError(f"{where}: not JSON: {error}") from error
    text = entry.get("text", "") if isinstance(entry, dict) else None
    messages = entry.get("messages", []) if isinstance(entry, dict) else None
    valid = isinstance(text, str) and isinstance(messages, list) and bool(text) != bool(messages)
    if not valid or not all(isinstance(m, dict) for m in messages or []):
        raise PromptError(f'{where}: needs "text": a string, or "messages": a list of objects')
    if not all(isinstance(m.get("role"), str) for m in messages or []):
        raise PromptError(
            f'{where}: each of "messages" needs a "role", as in {{"role": "user", …}}'
        )
    return Prompt(
        id=_name(entry, "id", f"{path.stem}-{number}", where),
        set=_name(entry, "set", path.stem, where),
        text=text or "",
        messages=tuple(messages or ()),
    )


def _name(entry: Mapping[str, Any], key: str, default: str, where: str) -> str:
    given = entry.get(key, default)
    if type(given) not in (str, int) or given == "":
        raise PromptError(f'{where}: "{key}" must be a string that is not empty, or a number')
    return str(given)


def _no_number(name: str) -> float:
    """Refuse what Python reads as JSON and no server does."""
    raise ValueError(f"{name} is no number in JSON")
