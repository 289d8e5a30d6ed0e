"""Special tokens from a target's tokenizer files, read as data: bounded, and no template is run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from eagle3_checks.checkpoint.config import CONFIG, language_config
from eagle3_checks.checkpoint.files import CheckpointError, file_size, read_json, read_range
from eagle3_checks.facts import Tokenizer

TOKENIZER = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
GENERATION = "generation_config.json"
TEMPLATE = "chat_template.jinja"
MAX_HEAD_BYTES = 2 << 20
"""As much of tokenizer.json is read: its added tokens stand before the vocabulary."""
MAX_TEMPLATE_BYTES = 1 << 20
MAX_TOKENS = 4096
"""More tokens than that are a vocabulary, not special."""

_ADDED = b'"added_tokens"'


def read_tokenizer(folder: Path) -> Tokenizer | None:
    """Read what says which tokens are special; None where the folder has no tokenizer files."""
    settings, special = _table(folder, SETTINGS), _table(folder, SPECIAL)
    generation, config = _table(folder, GENERATION), _table(folder, CONFIG)
    head = _head(folder, TOKENIZER, MAX_HEAD_BYTES)
    template = _head(folder, TEMPLATE, MAX_TEMPLATE_BYTES)
    found = {
        SETTINGS: settings is not None,
        SPECIAL: special is not None,
        TOKENIZER: head is not None,
        TEMPLATE: template is not None,
    }
    if not any(found.values()):
        return None
    tokens = dict(_added_tokens(head or b""))
    tokens.update(_decoder(settings or {}))
    texts = [template.decode("utf-8", "replace")] if template else []
    texts += _templates((settings or {}).get("chat_template"))
    named = [_content((table or {}).get("eos_token")) for table in (settings, special)]
    return Tokenizer(
        special=MappingProxyType(dict(sorted(tokens.items())[:MAX_TOKENS])),
        ends=tuple(_ends(tokens, named, generation or {}, config or {})),
        template="\n".join(texts)[:MAX_TEMPLATE_BYTES],
        files=tuple(name for name, seen in found.items() if seen),
    )


def _table(folder: Path, name: str) -> Mapping[str, Any] | None:
    try:
        (folder / name).stat()
        value = read_json(folder / name, name).value
    except (CheckpointError, OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _head(folder: Path, name: str, limit: int) -> bytes | None:
    try:
        (folder / name).stat()
        size = file_size(folder / name, name)
        return read_range(folder / name, name, 0, min(size, limit))
    except (CheckpointError, OSError, ValueError):
        return None


def _added_tokens(head: bytes) -> Iterator[tuple[int, str]]:
    """Yield the added tokens of the start of a tokenizer.json; nothing where they are cut off."""
    begin = head.find(b"[", head.find(_ADDED) + len(_ADDED)) if _ADDED in head else -1
    if begin < 0:
        return
    text = head[begin:].decode("utf-8", "ignore")
    try:
        tokens, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return
    for token in tokens if isinstance(tokens, list) else ():
        content = _content(token)
        if content and type(token.get("id")) is int:
            yield token["id"], content


def _decoder(settings: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    decoder = settings.get("added_tokens_decoder")
    for key, token in decoder.items() if isinstance(decoder, dict) else ():
        content = _content(token)
        if content and key.isascii() and key.isdigit():
            yield int(key[:12]), content


def _content(token: Any) -> str:
    """Return a token's text, whether it is written plainly or as an object."""
    value = token.get("content") if isinstance(token, dict) else token
    return value if isinstance(value, str) else ""


def _templates(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    named = value if isinstance(value, list) else []
    texts = [entry.get("template") for entry in named if isinstance(entry, dict)]
    return [text for text in texts if isinstance(text, str)]


def _ends(
    tokens: Mapping[int, str],
    named: list[str],
    generation: Mapping[str, Any],
    config: Mapping[str, Any],
) -> Iterator[int]:
    """Yield the ids that end an answer, each once."""
    sources = (generation, config, language_config(config))
    stated = [source.get("eos_token_id") for source in sources]
    ids = [i for value in stated for i in (value if isinstance(value, list) else [value])]
    ids += [i for i, content in tokens.items() if content and content in named]
    yield from dict.fromkeys(i for i in ids if type(i) is int and i >= 0)
