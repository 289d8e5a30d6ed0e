"""What the server is and runs on, for floors and baselines that hold there alone."""

from __future__ import annotations

import hashlib
import json
import subprocess
from functools import cache
from pathlib import Path

from eagle3_checks.facts import ServerSeen, TargetConfig
from eagle3_checks.measure.baseline import Key
from eagle3_checks.profile import Profile

UNKNOWN = "unknown"
_SECONDS = 30.0


@cache
def gpu_name() -> str:
    """Return the name of this machine's first GPU, as in ``NVIDIA H200``, or ``unknown``."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],  # noqa: S607 - on PATH
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    lines = done.stdout.strip().splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else UNKNOWN


def hardware(profile: Profile) -> str:
    """Return what the profile is served on: ``cpu``, a GPU's name, or ``unknown`` elsewhere."""
    if profile.server.url:
        return UNKNOWN
    return "cpu" if profile.server.device == "cpu" else gpu_name()


def machine_key(
    profile: Profile,
    server: ServerSeen,
    *,
    drafter_hash: str | None,
    target: TargetConfig | None,
    prompts: str,
) -> Key:
    """Return what a run shares with those it may be compared with."""
    spec, form = profile.speculation, profile.prompts
    config = json.dumps(target.raw if target else {}, sort_keys=True, default=str)
    shape = "chat" if form.chat_template else "raw"
    kind = hardware(profile)
    return Key(
        target=f"{Path(profile.target.path).name}@{hashlib.sha256(config.encode()).hexdigest()[:16]}",
        drafter=drafter_hash or f"unread:{Path(profile.drafter.path).name}",
        sglang=server.sglang or UNKNOWN,
        gpu=kind if kind == "cpu" else f"{profile.server.tp} x {kind}",
        dtype=f"{server.info.get('dtype')}, quantization {server.info.get('quantization')}",
        speculation=f"{spec.algorithm} {spec.steps}-{spec.topk}-{spec.draft_tokens}",
        prompts=f"{prompts} {shape} {form.max_new_tokens}",
    )
