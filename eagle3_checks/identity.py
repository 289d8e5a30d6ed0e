"""What a run is recognised by: the bytes of its drafter, its target, its flags."""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from eagle3_checks.checkpoint.digest import digest
from eagle3_checks.checkpoint.files import CheckpointError
from eagle3_checks.checkpoint.hub import local_folder
from eagle3_checks.environments import installed_version
from eagle3_checks.profile import Profile
from eagle3_checks.settings import flatten

IN_ANOTHER_FORM = ("drafter.path", "target.path", "prompts.sets")
WITHOUT_EFFECT = (
    "name",
    "description",
    "server.port",
    "server.start_timeout",
    "server.request_timeout",
    "baseline.",
)


@functools.cache
def drafter_identity(drafter: str) -> str | None:
    """Return a hash over all bytes of a drafter's config and weights; None where unreadable.

    Headers and sizes are the same for all checkpoints of one training, and are not enough here.
    A hub id's files are downloaded, as the server would.
    """
    try:
        folder = local_folder(drafter, weights=True)
    except CheckpointError:
        return None
    return digest(folder, full_below=sys.maxsize)


@functools.cache
def target_identity(target: str) -> str:
    """Return what a target is recognised by: its config, headers and sizes, or its hub id."""
    folder = Path(target).expanduser()
    known = digest(folder, full_below=0) if folder.is_dir() else None
    return known or f"name:{hashlib.sha256(target.encode()).hexdigest()}"


def release_identity(profile: Profile) -> str:
    """Return the SGLang version that will serve; '' where a command of the profile's own does.

    The same interpreter may have another one tomorrow.
    """
    server = profile.server
    if server.command:
        return server.sglang
    return _installed(server.python or sys.executable) or server.sglang


def flags_identity(profile: Profile, *, without: Iterable[str] = ()) -> str:
    """Return a hash over the settings that can change what is measured; they may hold secrets.

    `without` names further starts of keys that do not matter.
    """
    left_out = (*IN_ANOTHER_FORM, *WITHOUT_EFFECT, *without)
    kept = {key: value for key, value in flatten(profile).items() if not key.startswith(left_out)}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=dict).encode()).hexdigest()


_installed = functools.cache(installed_version)
