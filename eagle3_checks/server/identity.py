"""Which server answers: its models, its speculation and its start, from ``/server_info``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from eagle3_checks.profile import Profile
from eagle3_checks.server.flags import split_revision

_SPECULATION: Mapping[str, str] = {
    "speculative_algorithm": "algorithm",
    "speculative_num_steps": "steps",
    "speculative_eagle_topk": "topk",
    "speculative_num_draft_tokens": "draft_tokens",
}
_KEPT = ("model_path", "speculative_draft_model_path", *_SPECULATION, "version", "weight_version")
_SNAPSHOT = re.compile(r"models--(?P<org>[^/]+?)--(?P<name>[^/]+)/snapshots/")
START = "the start itself"


def identity(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return what tells one server from another; what it does not say is left out."""
    model = info.get("model_info")
    told = {**(model if isinstance(model, dict) else {}), **info}
    kept = {key: told[key] for key in _KEPT if told.get(key) is not None}
    states = info.get("internal_states")
    listed = states if isinstance(states, list) else []
    starts = [s["startup_time"] for s in listed if isinstance(s, dict) and "startup_time" in s]
    if starts:  # of each scheduler, which answer in any order
        kept[START] = sorted(json.dumps(start, sort_keys=True) for start in starts)
    return kept


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Say what of a server's identity is another than before."""
    return tuple(
        key if key == START else f"{key} was {before[key]!r} and is {after[key]!r}"
        for key in before
        if key in after and before[key] != after[key]
    )


def differences(profile: Profile, info: Mapping[str, Any]) -> tuple[str, ...]:
    """Say where a server is not the one that the profile describes.

    A path is compared by its last part: the server may have the same folder elsewhere. What either
    side leaves open is not compared.
    """
    return tuple(_differences(profile, identity(info)))


def _differences(profile: Profile, seen: Mapping[str, Any]) -> Iterator[str]:
    for key, name, wanted in (
        ("model_path", "target.path", profile.target.path),
        ("speculative_draft_model_path", "drafter.path", profile.drafter.path),
    ):
        if wanted and key in seen and _name(wanted) != _name(str(seen[key])):
            yield f"{key} is {seen[key]!r}, {name} is {wanted!r}"
    for key, name in _SPECULATION.items():
        asked = getattr(profile.speculation, name)
        if profile.drafter.path and key in seen and str(seen[key]).upper() != str(asked).upper():
            yield f"{key} is {seen[key]!r}, speculation.{name} is {asked!r}"
    version = profile.server.sglang
    if version and seen.get("version", version) != version:
        yield f"version is {seen['version']!r}, server.sglang is {version!r}"


def _name(source: str) -> str:
    """Return the name of a checkpoint: the last part of its path or of its hub id."""
    cached = _SNAPSHOT.search(source)
    if cached is not None:
        return cached["name"].lower()
    return split_revision(source.rstrip("/"))[0].rpartition("/")[2].lower()
