"""Starts a server under its watchdog and ends it with a context."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from eagle3_checks.profile import Profile
from eagle3_checks.server.device import Served
from eagle3_checks.server.estimate import remember
from eagle3_checks.server.flags import (
    RUN_ID,
    api_key,
    build_command,
    build_environment,
    gpus_of,
    stop_command,
)
from eagle3_checks.server.guarded import ORDERLY, QUICK
from eagle3_checks.server.leftovers import temporary_prefix
from eagle3_checks.server.ports import ReservedPort
from eagle3_checks.server.running import RunningServer, Tell, nobody
from eagle3_checks.server.slots import own_folder, take
from eagle3_checks.server.vital import gpu_memory, wait_released
from eagle3_checks.server.watchdog import Pace

# Room for the names of sockets that SGLang puts there: unix(7) allows 107 bytes in all.
_LONGEST_TEMPORARY = 80


def _temporary(profile: Profile, environment: dict[str, str], run_id: str) -> str:
    """Give the server a folder for its temporary files; '' where the profile or its length forbid.

    SGLang leaves a socket per process in it when killed. Compiled kernels, which torch keeps in
    the temporary folder too, stay where they are.
    """
    usual = tempfile.gettempdir()
    if "TMPDIR" in profile.server.env or len(usual) > _LONGEST_TEMPORARY:
        return ""
    user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    environment.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{usual}/torchinductor_{user}")
    environment["TMPDIR"] = tempfile.mkdtemp(prefix=temporary_prefix(run_id))
    return environment["TMPDIR"]


def launch(
    profile: Profile,
    artefacts: Path,
    *,
    device: Served,
    pace: Pace | None = None,
    tell: Tell = nobody,
) -> contextlib.AbstractContextManager[RunningServer]:
    """Start a server and end it with the context; the server is ready inside.

    `pace` is how its end is drawn out; by the device where None. Writes ``server.log`` and
    ``probe.PID.jsonl`` into `artefacts`. Raises ServerStartError where the server does not become
    ready, PortTakenError, FlagError.
    """
    return _launch(
        profile, artefacts, device, pace or (QUICK if device == "cpu" else ORDERLY), tell
    )


@contextlib.contextmanager
def _launch(
    profile: Profile, artefacts: Path, device: Served, pace: Pace, tell: Tell
) -> Iterator[RunningServer]:
    artefacts = artefacts.resolve()
    artefacts.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folder = stack.enter_context(own_folder(artefacts))
        slot = stack.enter_context(take(profile, device, os.environ))
        port = stack.enter_context(ReservedPort(profile.server.host, profile.server.port))
        log, prefix, run_id = artefacts / "server.log", artefacts / "probe", str(uuid.uuid4())
        for old in (log, *artefacts.glob("probe.*.jsonl")):
            old.unlink(missing_ok=True)
        log.touch(mode=0o600)  # SGLang logs its API key with its other arguments
        base = os.environ | slot.environment(device)
        environment = build_environment(profile, device=device, probe_prefix=prefix, base=base)
        environment[RUN_ID] = run_id
        gpus = gpus_of(environment)
        command = build_command(profile, port=port.port, device=device, gpus=gpus)
        temporary = _temporary(profile, environment, run_id)
        if temporary:
            stack.callback(shutil.rmtree, temporary, ignore_errors=True)
        if device == "cuda":
            stack.callback(wait_released, gpu_memory(), gpus)
        running = RunningServer(
            command=command,
            environment=environment,
            url=_url(profile.server.host, port.port),
            api_key=api_key(profile, os.environ),
            log=log,
            probe_prefix=prefix,
            run_id=run_id,
            indirect=bool(profile.server.command),
            temporary=temporary,
            pace=pace,
            stop_command=stop_command(profile, port=port.port, gpus=gpus),
            kept=(folder, *slot.fds),
        )
        try:
            running.wait_started()
            running.wait_ready(profile, tell)
            remember(profile, running.start_seconds or 0.0)
            port.close()
            yield running
        finally:
            running.stop()


def _url(host: str, port: int) -> str:
    """Address a client reaches the server at: a wildcard host listens on loopback too."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"
