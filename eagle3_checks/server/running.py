"""A launched server: its process, its watchdog, and what it has written."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from eagle3_checks.facts import PoolSeen, ServerSeen, Wiring
from eagle3_checks.profile import Profile
from eagle3_checks.server import vital, watchdog
from eagle3_checks.server.describe import describe, server_info
from eagle3_checks.server.guarded import QUICK, START_SECONDS, Guarded
from eagle3_checks.server.http import Endpoint
from eagle3_checks.server.leftovers import leftovers
from eagle3_checks.server.phases import last_phase
from eagle3_checks.server.pool import emptied
from eagle3_checks.server.ports import listeners
from eagle3_checks.server.probe_facts import read_wiring
from eagle3_checks.server.readiness import (
    TAIL_LINES,
    ServerStalledError,
    ServerStartError,
    wait_ready,
)
from eagle3_checks.server.redact import Redactor
from eagle3_checks.server.signatures import Symptom, symptoms
from eagle3_checks.server.stacks import dump as stacks_of
from eagle3_checks.server.stacks import told

_EXIT_NOTICE_SECONDS = 2.0
BEGINNING, END = 1 << 20, 1 << 18
"""Bytes of a log that are read for its causes, from either end."""
MOST_STACKS = 12


Tell = Callable[[str, float], None]
"""Takes what a start is doing, and the seconds since it began."""


def nobody(doing: str, seconds: float) -> None:
    """Take it in and do nothing."""


class RunningServer(Guarded):
    """A server process, its watchdog, and what it has written."""

    launched = True

    def __init__(  # noqa: PLR0913 - what a launch consists of
        self,
        *,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        url: str,
        api_key: str,
        log: Path,
        probe_prefix: Path,
        run_id: str,
        indirect: bool,
        temporary: str = "",
        pace: watchdog.Pace = QUICK,
        stop_command: tuple[str, ...] = (),
        kept: tuple[int, ...] = (),
    ) -> None:
        self.redactor = Redactor.of(command, environment, {"api_key": api_key})
        self.command = self.redactor.command(command)
        self.environment = dict(environment)
        self.endpoint = Endpoint(url, api_key)
        self.api_key = api_key
        self.probe_prefix = probe_prefix
        self._indirect = indirect
        self.start_seconds: float | None = None
        super().__init__(
            command=command,
            environment=environment,
            log=log,
            run_id=run_id,
            temporary=temporary,
            pace=pace,
            stop_command=stop_command,
            kept=kept,
        )

    @property
    def url(self) -> str:
        """Base address, without a trailing slash."""
        return self.endpoint.url

    def wait_started(self) -> None:
        """Wait until the process runs; ServerStartError where it cannot be started."""
        self._started.wait(START_SECONDS)
        if not self.pid:
            reason = self.redactor.text(self._failure or "the watchdog did not start it")
            raise self.failed(ServerStartError(f"the server's command cannot be run: {reason}"))

    def wait_ready(self, profile: Profile, tell: Tell = nobody) -> None:
        """Wait until the server is ready, telling how far it is; ServerStartError says why not."""
        began = time.monotonic()
        lines = vital.LogLines(self.log)
        pulse = vital.Pulse(lambda: vital.signs(self._watchdog.pid, lines))

        def look() -> None:
            seconds = pulse.still()
            tell(str(lines.reader), time.monotonic() - began)
            # What runs in a container shows no sign of life here.
            if self._stop_command or not self.alive():
                return
            if seconds > profile.server.stall_timeout:
                raise ServerStalledError(
                    f"the server's start is stuck: no new log line, no CPU time and no change of "
                    f"memory for {profile.server.stall_timeout:g} s (server.stall_timeout)"
                )

        try:
            wait_ready(
                self.endpoint,
                timeout=profile.server.start_timeout,
                request_timeout=profile.server.request_timeout,
                exited=self.exited,
                answered=self._check_listener,
                look=look,
                speculative=bool(profile.drafter.path),
            )
        except ServerStalledError as error:
            raise self._stalled(error) from None
        except ServerStartError as error:
            raise self.failed(error) from None
        self.start_seconds = time.monotonic() - began

    def _stalled(self, error: ServerStalledError) -> ServerStartError:
        """Take the stacks of a stuck server, end it, and tell where it stood."""
        self.failed(error)
        error.stacks = self.standing()
        self.stop(watchdog.ABORT if error.stacks else watchdog.DUMP)
        lines = tuple(self.lines())
        if not error.stacks:
            error.stacks = tuple(map(str, told("\n".join(lines))))[:MOST_STACKS]
        error.symptoms = symptoms([error.problem, *lines, *error.stacks])
        return error

    def _check_listener(self) -> None:
        """Make sure that the answer came from the process that was launched.

        SGLang 0.5.23 stays alive when its port turns out to be taken, and whoever took it may be
        a server of the same kind. A command of the profile's own may serve from outside its own
        process tree, in a container; there only another launch of this suite is a stranger.
        """
        port = urlsplit(self.url).port or 0
        owners = listeners(port)
        strangers = owners - watchdog.descendants(self._watchdog.pid)
        if self._indirect:
            strangers &= {left.pid for left in leftovers()}
        if strangers and strangers == owners:
            raise ServerStartError(
                f"port {port} is already in use: process {min(strangers)} answered in the "
                "server's place"
            )

    def failed(self, error: ServerStartError) -> ServerStartError:
        """Add to an error what the launcher knows: exit code, phase, likely causes, log."""
        self.exited.wait(_EXIT_NOTICE_SECONDS if not self.alive() else 0)
        if self.exit_code is not None:
            how = f"exit code {self.exit_code}"
            if self.exit_code < 0:
                how = f"killed by signal {-self.exit_code}"
            error.problem = f"{error.problem} ({how})"
        error.problem = self.redactor.text(error.problem)
        error.waited_for = self.redactor.text(error.waited_for)
        error.command = self.command
        error.exit_code = self.exit_code
        lines = tuple(self.lines())
        error.phase = last_phase(lines)
        error.symptoms = symptoms([error.problem, *lines])
        error.tail = lines[-TAIL_LINES:]
        error.log = str(self.log)
        return error

    def lines(self) -> Iterator[str]:
        """Yield the log's lines, secrets masked; of a flood its beginning and its end."""
        with contextlib.suppress(FileNotFoundError), self.log.open("rb") as log:
            size = os.fstat(log.fileno()).st_size
            for line in log:
                yield self.redactor.text(line.decode(errors="replace").rstrip("\n"))
                if log.tell() >= size:  # what is written meanwhile may never end
                    return
                if BEGINNING < log.tell() < size - END:
                    log.seek(size - END)
                    log.readline()
                    yield f"[{size >> 20} MiB of log: the middle is passed over]"

    def tail(self, n: int) -> tuple[str, ...]:
        """Return the last n lines of the log, secrets masked."""
        return tuple(deque(self.lines(), maxlen=n))

    def symptoms(self) -> tuple[Symptom, ...]:
        """Return the known failures that the log shows so far."""
        return symptoms(self.lines())

    def info(self) -> dict[str, Any]:
        """Return ``/server_info`` as it is now, with secrets masked."""
        return server_info(self.endpoint, self.redactor)

    def seen(self) -> ServerSeen:
        """Return what the server says of itself and how it was started, secrets masked."""
        return describe(
            self.endpoint,
            self.redactor,
            launched=True,
            environment=self.environment,
            start_seconds=self.start_seconds,
            command=self.command,
            log=str(self.log),
        )

    def wiring(self) -> Wiring:
        """Return what the probe has seen so far; empty where it wrote nothing."""
        return read_wiring(self.probe_prefix)

    def changed(self) -> tuple[str, ...]:
        """Return nothing: a server of our own stays what it is."""
        return ()

    def traffic(self) -> dict[str, float]:
        """Return nothing: a server of our own has no other clients."""
        return {}

    def memory(self) -> int:
        """Return the resident memory of all the server's processes, in bytes."""
        return sum(process.resident for process in self.processes())

    def standing(self) -> tuple[str, ...]:
        """Return where the threads of the server's Python processes stand, and which are halted."""
        tree = self.processes()
        halted = [f"{process} and could not say" for process in tree if process.halted]
        stacks = [str(stack) for stack in stacks_of(tree, self.log)]
        return tuple(self.redactor.text(line) for line in (*halted, *stacks))[:MOST_STACKS]

    def cpu_seconds(self) -> float:
        """Return the CPU time of all the server's living processes."""
        return sum(process.cpu_seconds for process in self.processes())

    def clues(self, *, hung: bool) -> tuple[str, ...]:
        """Return likely causes from the log and, of a hung server, where its threads stand."""
        causes = tuple(f"likely cause: {symptom}" for symptom in self.symptoms())
        stacks = tuple(f"stuck in: {line}" for line in self.standing()) if hung else ()
        return (*causes, *stacks, f"log: {self.log}")

    def pool(self) -> PoolSeen:
        """Empty the prefix cache and return what is still in use."""
        return emptied(self.endpoint)

    def close(self) -> None:
        """Close connections, and take what secrets there are out of the log."""
        self.endpoint.close()
        self.redactor.file(self.log)
