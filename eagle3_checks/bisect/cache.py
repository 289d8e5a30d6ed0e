"""Readings that are kept, so that an interrupted bisect goes on where it was.

A reading is found again by what it depends on: the drafter's bytes, the target, SGLang, the flags,
the prompts, the machine.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eagle3_checks.bisect.readings import Reading, from_json, to_json

FORMAT = 1


class Cache:
    """Readings in a folder, one file each."""

    def __init__(self, folder: Path) -> None:
        """Nothing is made yet."""
        self.folder = folder

    def get(self, key: Mapping[str, Any]) -> Reading | None:
        """Return the reading of a key; None where there is none that can be read."""
        try:
            data = json.loads(self._path(key).read_text(encoding="utf-8"))
            return from_json(data["reading"]) if data["format"] == FORMAT else None
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None

    def put(self, key: Mapping[str, Any], reading: Reading) -> None:
        """Keep a reading: written beside, then renamed. Raises OSError.

        One without a figure is not kept: what stopped the server may be gone next time.
        """
        if reading.trouble:
            return
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        data = {"format": FORMAT, "key": dict(key), "reading": to_json(reading)}
        try:
            beside.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)

    def _path(self, key: Mapping[str, Any]) -> Path:
        canon = json.dumps([FORMAT, key], sort_keys=True)
        return self.folder / f"{hashlib.sha256(canon.encode()).hexdigest()[:24]}.json"
