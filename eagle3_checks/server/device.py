"""Which accelerator this machine has, found without importing torch."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from eagle3_checks.profile import Profile

Served = Literal["cuda", "cpu"]
_QUERY_SECONDS = 30.0


class NoDeviceError(RuntimeError):
    """Nothing to serve on: the gate was not run, which is neither a pass nor a fail."""


def detect_device(
    environ: Mapping[str, str] | None = None, *, devices: Path = Path("/dev")
) -> Literal["cuda"] | None:
    """Return ``cuda`` where an NVIDIA GPU can be used, else None.

    Device files decide; where there are none (WSL), ``nvidia-smi -L`` does. A set but empty
    ``CUDA_VISIBLE_DEVICES`` hides every GPU.
    """
    environ = os.environ if environ is None else environ
    if environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1", "NoDevFiles"):
        return None
    if any(devices.glob("nvidia[0-9]*")):
        return "cuda"
    tool = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if tool is None:
        return None
    try:
        listed = subprocess.run(  # noqa: S603 - the driver's own tool, found on PATH
            [tool, "-L"], capture_output=True, text=True, timeout=_QUERY_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return "cuda" if listed.returncode == 0 and "GPU 0" in listed.stdout else None


def served_device(profile: Profile) -> Served:
    """Device a profile is served on; `NoDeviceError` where ``auto`` finds none.

    The CPU engine is taken only where the profile asks for it: its speed says nothing about a GPU.
    """
    if profile.server.device != "auto":
        return profile.server.device
    found = detect_device()
    if found is None:
        raise NoDeviceError(
            "server.device is 'auto' and this machine has no NVIDIA GPU; run on a GPU host, attach "
            "to a server with --eagle3-url, or serve on the CPU engine with --eagle3-device cpu"
        )
    return found
