"""Launch or attach to SGLang servers, wait for them, and leave nothing behind."""

from __future__ import annotations

from eagle3_checks.server.attach import AttachedServer, OtherServerError, attach
from eagle3_checks.server.device import NoDeviceError, detect_device
from eagle3_checks.server.flags import FlagError, build_command, build_environment
from eagle3_checks.server.launch import launch
from eagle3_checks.server.leftovers import Leftover, leftovers
from eagle3_checks.server.open import open_server
from eagle3_checks.server.ports import PortTakenError
from eagle3_checks.server.protocol import Server
from eagle3_checks.server.readiness import ServerStalledError, ServerStartError, SpeculationOffError
from eagle3_checks.server.running import RunningServer

__all__ = [
    "AttachedServer",
    "FlagError",
    "Leftover",
    "NoDeviceError",
    "OtherServerError",
    "PortTakenError",
    "RunningServer",
    "Server",
    "ServerStalledError",
    "ServerStartError",
    "SpeculationOffError",
    "attach",
    "build_command",
    "build_environment",
    "detect_device",
    "launch",
    "leftovers",
    "open_server",
]
