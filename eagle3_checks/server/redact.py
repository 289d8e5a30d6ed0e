"""Secrets taken out of every text, command and mapping that leaves this package."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle3_checks.server.arguments import flags

MASK = "***"
_SECRET_WORDS = frozenset(
    {"apikey", "auth", "authorization", "bearer", "credential", "credentials", "key"}
    | {"passphrase", "passwd", "password", "secret", "secrets", "token"}
)
_MIN_LENGTH = 4
"""Shorter values are not masked wherever they occur: they would blot out ordinary text."""

_NAME = r"[\w-]*?(?:api[_-]?key|token|secret|passw(?:or)?d|passphrase|credentials?)"
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s,;&)\]}\"']+)"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(rf"(--{_NAME})(=|\s+|'\s*,\s*|\"\s*,\s*)({_VALUE})", re.IGNORECASE), r"\1\2***"),
    (
        re.compile(
            rf"(?<![\w-])([\"']?{_NAME}[\"']?)(\s*[=:]\s*)"
            rf"(?!None\b|null\b|True\b|False\b|true\b|false\b|\d+\b)({_VALUE})",
            re.IGNORECASE,
        ),
        r"\1\2***",
    ),
    (re.compile(r"\b(Bearer|Basic)(\s+)[\w.~+/=-]{4,}", re.IGNORECASE), r"\1\2***"),
    (re.compile(r"\b(hf|sk|ghp|gho|ghs|github_pat|glpat|nvapi)[_-][A-Za-z0-9_-]{16,}"), r"\1-***"),
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@:]+:[^\s/@]+@"), r"\1***@"),
)

_HINTS = (
    *("key", "token", "secret", "passw", "passphrase", "credential", "bearer", "basic", "://"),
    *("hf_", "hf-", "sk_", "sk-", "ghp", "gho", "ghs", "github_pat", "glpat", "nvapi"),
)
"""What a text must hold for any pattern to match: looked for first, since logs are long."""


def is_secret(name: str) -> bool:
    """Whether a field, variable or flag of this name holds a secret (``HF_TOKEN``, ``api-key``)."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return not _SECRET_WORDS.isdisjoint(re.split(r"[^a-z0-9]+", spaced.lower()))


@dataclass(frozen=True)
class Redactor:
    """Masks the secrets it was told of, and what looks like one."""

    secrets: frozenset[str] = frozenset()

    @classmethod
    def of(cls, command: Iterable[str] = (), *environments: Mapping[str, str]) -> Redactor:
        """Learn the secrets that a command line and environments hold."""
        found = {v for env in environments for k, v in env.items() if is_secret(k)}
        found |= {value for name, value in flags(command) if is_secret(name)}
        return cls(frozenset(v for v in found if len(v) >= _MIN_LENGTH))

    def text(self, text: str) -> str:
        """Return the text with secrets masked."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, MASK)
        lowered = text.lower()
        if any(hint in lowered for hint in _HINTS):
            for pattern, masked in _PATTERNS:
                text = pattern.sub(masked, text)
        return text

    def file(self, path: Path) -> None:
        """Mask the secrets this was told of in a file, in place; nothing else is looked for."""
        known = sorted((s.encode() for s in self.secrets), key=len, reverse=True)
        if not known or not path.is_file():
            return
        part = path.with_name(f"{path.name}.part")
        with path.open("rb") as before, part.open("wb") as after:
            part.chmod(path.stat().st_mode)
            for line in before:
                masked = line
                for secret in known:
                    masked = masked.replace(secret, MASK.encode())
                after.write(masked)
        part.replace(path)

    def command(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return the command with the values of secret flags masked."""
        masked: list[str] = []
        follows = False
        for word in words:
            name, joined, _ = word.partition("=")
            flag = name.startswith("--") and is_secret(name)
            if flag and joined:
                masked.append(f"{name}={MASK}")
            else:
                masked.append(MASK if follows and not word.startswith("--") else self.text(word))
            follows = flag and not joined
        return tuple(masked)

    def data(self, value: Any, name: str = "") -> Any:
        """Return JSON-like data with the texts under secret names masked, at any depth."""
        if isinstance(value, str):
            return MASK if value and name and is_secret(name) else self.text(value)
        if isinstance(value, Mapping):
            return {k: self.data(v, str(k)) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(v, name) for v in value]
        return value
