"""Owns a stub server until it is ended; run by the tests of interruptions.

Usage: owner.py CHECKPOINT ARTEFACTS FIFO [--fork] STUB-ARGUMENT…; writes the pids of itself, of the
watchdog and, with ``--fork``, of a child that holds copies of all its descriptors to FIFO once the
server is ready.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from eagle3_checks.profile import Model, Profile, Server
from eagle3_checks.server import launch
from eagle3_checks.server.watchdog import Pace

STUB = Path(__file__).parent / "stub.py"


def main(checkpoint: str, artefacts: str, fifo: str, *stub: str) -> None:
    # What started the tests may ignore them, as nohup and a shell's `&` do, and that is inherited.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    fork = "--fork" in stub
    given = tuple(word for word in stub if word != "--fork")
    profile = Profile(
        target=Model(path=checkpoint),
        drafter=Model(path=checkpoint),
        server=Server(command=(sys.executable, "-I", "-S", str(STUB), *given)),
    )
    with launch(profile, Path(artefacts), device="cpu", pace=Pace(0.0, 0.2)) as server:
        pids = [os.getpid(), server._watchdog.pid]
        if fork:
            pids.append(os.fork())
            if pids[-1] == 0:
                threading.Event().wait()
        Path(fifo).write_text(json.dumps(pids) + "\n", encoding="utf-8")
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
