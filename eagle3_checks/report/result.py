"""The result of a run as plain data: what JSON holds and every renderer reads.

Its schema is ``result.schema.json`` beside this file.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagle3_checks.verdict import Cause, Finding, Status, Verdict
from eagle3_checks.version import VERSION

if TYPE_CHECKING:
    from eagle3_checks.diagnosis import Subject
    from eagle3_checks.profile import Resolved
    from eagle3_checks.server.redact import Redactor

SCHEMA_VERSION = 1

Result = dict[str, Any]


def build_result(  # noqa: PLR0913 - the parts of a result
    *,
    verdict: Verdict,
    findings: Iterable[Finding],
    subject: Mapping[str, Any],
    measurements: Mapping[str, Any] | None = None,
    environment: Mapping[str, Any] | None = None,
    resolved: Resolved | None = None,
    reproduce: str = "",
    causes: Iterable[Cause] | None = None,
) -> Result:
    """Assemble a result; every value is plain JSON.

    Where no causes are given, they are found among the findings alone.
    """
    found = tuple(findings)
    if causes is None:
        causes = _causes(found, subject, reproduce)
    return {
        "schema_version": SCHEMA_VERSION,
        "tool_version": tool_version(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "subject": plain(subject),
        "verdict": verdict.value,
        "findings": [plain(f) for f in found],
        "measurements": plain(measurements or {}),
        "causes": [_cause(c) for c in causes],
        "environment": plain(environment or {}) | {"python": sys.version.partition(" ")[0]},
        "profile": _profile(resolved),
        "reproduce": _masked(reproduce),
    }


def _causes(
    found: tuple[Finding, ...], subject: Mapping[str, Any], reproduce: str
) -> tuple[Cause, ...]:
    if not any(f.status in (Status.FAIL, Status.INCONCLUSIVE) for f in found):
        return ()
    from eagle3_checks.diagnosis import Evidence, diagnose  # noqa: PLC0415 - the healthy do without

    return diagnose(Evidence(findings=found, subject=subject_of(subject, reproduce)))


def subject_of(subject: Mapping[str, Any], reproduce: str = "") -> Subject:
    """Return what is judged as it stands in the commands of a diagnosis."""
    known = {
        "drafter": subject.get("drafter"),
        "target": subject.get("target"),
        "gate": reproduce,
    }
    from eagle3_checks.diagnosis import Subject  # noqa: PLC0415 - as in `_causes`

    return Subject(**{name: str(value) for name, value in known.items() if value})


def _cause(cause: Cause) -> dict[str, Any]:
    told: dict[str, Any] = plain(cause)
    return {**told, "try": told.pop("next_steps")}


def tool_version() -> str:
    """Return the version of this suite."""
    return VERSION


def plain(value: Any) -> Any:
    """Turn dataclasses, mappings, tuples and enums into JSON's own types; no NaN or infinity."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or type(value) in (bool, int):
        return value
    return harmless(str(value))


def harmless(text: str) -> str:
    """Escape control characters: names from a checkpoint or a log must not drive a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def write_json(result: Result, path: Path) -> None:
    """Write a result as JSON; a reader never sees half of it. Raises OSError."""
    write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", path)


def write_text(text: str, path: Path) -> None:
    """Write beside, then rename. Raises OSError, also where a device or a pipe is there."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "there is something that is no regular file")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _profile(resolved: Resolved | None) -> dict[str, Any]:
    if resolved is None:
        return {}
    from eagle3_checks.settings import flatten  # noqa: PLC0415 - `inspect` has no profile

    values = flatten(resolved.profile)
    return {
        key: {"value": plain(_public(key, value)), "origin": resolved.origins[key]}
        for key, value in values.items()
    }


def _public(key: str, value: Any) -> Any:
    """Mask the secrets of a setting: variables and flags by their name, and what looks like one."""
    if key == "server.env":
        return {name: redact_variable(name, text) for name, text in value.items()}
    if key in ("server.args", "server.command"):
        return _redactor().command(value)
    return _masked(value) if isinstance(value, str) else value


def redact_variable(name: str, text: str) -> str:
    """Return the value of an environment variable, unless its name says that it is a secret."""
    secret = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
    return "(redacted)" if any(word in name.upper() for word in secret) else _masked(text)


def _masked(text: str) -> str:
    return _redactor().text(text) if text else text


def _redactor() -> Redactor:
    from eagle3_checks.server.redact import Redactor  # noqa: PLC0415 - `inspect` does without

    return Redactor()
