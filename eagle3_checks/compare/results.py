"""Results of the gate, read back from their files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eagle3_checks.report.result import SCHEMA_VERSION

MAX_BYTES = 64 << 20
PARTS = ("subject", "measurements", "environment", "profile")


class ResultError(ValueError):
    """A file that is no result; the message names it and says what was expected."""


def read_result(path: Path) -> Mapping[str, Any]:
    """Read a result that ``--json`` wrote. Raises ResultError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ResultError(f"{path}: larger than 64 MiB; no result is")
        data = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ResultError(f"{path}: is not UTF-8 text; {_EXPECTED}") from error
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, ResultError):
            raise
        raise ResultError(f"{path}: is not JSON; {_EXPECTED}") from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    whole = isinstance(data, dict) and all(isinstance(data.get(p), dict) for p in PARTS)
    if version != SCHEMA_VERSION or not whole or not isinstance(data.get("findings"), list):
        raise ResultError(f"{path}: is no result of schema version {SCHEMA_VERSION}; {_EXPECTED}")
    found: Mapping[str, Any] = data
    return found


_EXPECTED = "give a file that `eagle3-checks gate --json` wrote"
