"""How long a start takes, from earlier starts with the same flags on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import platform
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eagle3_checks.profile import Profile

KEPT = 5
"""Starts kept for each set of flags."""
MOST_KEYS = 200
CACHE = "EAGLE3_CHECKS_CACHE"


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return where this suite keeps what it may lose: ``EAGLE3_CHECKS_CACHE``, or XDG's place."""
    environ = os.environ if environ is None else environ
    if environ.get(CACHE):
        return Path(environ[CACHE])
    home = environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(home) / "eagle3-checks"


def expected(profile: Profile) -> float | None:
    """Return the median seconds of earlier starts; None where there were none."""
    kept = _read().get(_key(profile))
    return statistics.median(kept) if kept else None


def remember(profile: Profile, seconds: float) -> None:
    """Keep the seconds of a start; a cache that cannot be written is done without."""
    starts = _read()
    key = _key(profile)
    starts[key] = [*starts.pop(key, []), round(seconds, 1)][-KEPT:]
    path = _path()
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(dict(list(starts.items())[-MOST_KEYS:]), indent=1))
        beside.replace(path)


def _path() -> Path:
    return cache_folder() / "starts.json"


def _read() -> dict[str, list[float]]:
    try:
        data: Any = json.loads(_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {
        key: [float(s) for s in kept if isinstance(s, int | float)]
        for key, kept in (data.items() if isinstance(data, dict) else ())
        if isinstance(kept, list)
    }


def _key(profile: Profile) -> str:
    """Name what a start's length depends on; limits and where it is reached do not count."""
    server = profile.server
    given = {
        "host": platform.node(),
        "target": profile.target.path,
        "drafter": profile.drafter.path,
        "speculation": dataclasses.asdict(profile.speculation),
        "server": [server.device, server.python, server.command, server.tp, server.args],
        "environment": dict(server.env),
    }
    text = json.dumps(given, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
