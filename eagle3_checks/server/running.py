"""A launched server: its process, its watchdog, and what it has written."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from eagle3_checks.facts import ServerSeen, Wiring
from eagle3_checks.profile import Profile
from eagle3_checks.server import vital, watchdog
from eagle3_checks.server.describe import describe, server_info
from eagle3_checks.server.http import Endpoint
from eagle3_checks.server.leftovers import leftovers, sweep
from eagle3_checks.server.phases import last_phase
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

QUICK = watchdog.Pace(lead=0.0, grace=2.0)
"""On the CPU engine. SGLang's ranks end at once; its first process looks for the signal every 5 s
(``sigterm_watchdog``) and has nothing left to do by then."""
ORDERLY = watchdog.Pace(lead=6.0, grace=10.0)
"""On GPUs: the first process gets its 5 s to end the ranks in order, since a rank that is killed
while it frees GPU memory may leave it taken."""
_START_SECONDS = 60.0
_EXIT_NOTICE_SECONDS = 2.0
MOST_STACKS = 12


class RunningServer:
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
    ) -> None:
        self.redactor = Redactor.of(command, environment, {"api_key": api_key})
        self.command = self.redactor.command(command)
        self.environment = dict(environment)
        self.endpoint = Endpoint(url, api_key)
        self.api_key = api_key
        self.log = log
        self.probe_prefix = probe_prefix
        self.run_id = run_id
        self._indirect = indirect
        self.pid = 0
        self.exit_code: int | None = None
        self.start_seconds: float | None = None
        self.left: tuple[int, ...] = ()
        """Processes that even SIGKILL did not end."""
        self.exited = threading.Event()
        self._failure = ""
        self._started = threading.Event()
        self._ended = threading.Event()
        self._stopping = threading.Lock()
        self.temporary = temporary
        self._control = -1
        self._pace = pace
        self._stop_command = stop_command
        self._watchdog = self._start_watchdog(command, environment)

    def _start_watchdog(
        self, command: tuple[str, ...], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        control_read, self._control = os.pipe()
        status_read, status_write = os.pipe()
        words = [sys.executable, "-I", "-S", watchdog.__file__]
        words += [f"--control={control_read}", f"--status={status_write}"]
        words += [f"--owner={os.getpid()}", f"--log={self.log}"]
        words += [f"--lead={self._pace.lead}", f"--grace={self._pace.grace}"]
        words += [f"--stop-command={json.dumps(self._stop_command)}"] if self._stop_command else []
        words += [f"--temporary={self.temporary}"] if self.temporary else []
        try:
            process = subprocess.Popen(  # noqa: S603 - this interpreter, this package's script
                [*words, "--", *command],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(control_read, status_write),
                start_new_session=True,
            )
        except BaseException:
            os.close(status_read)
            os.close(self._control)
            raise
        finally:
            os.close(control_read)
            os.close(status_write)
        thread = threading.Thread(
            target=self._follow, args=(status_read,), name="eagle3-watchdog", daemon=True
        )
        thread.start()
        return process

    def _follow(self, status: int) -> None:
        """Take in the watchdog's status lines until it is gone."""
        ended = False
        with os.fdopen(status, "rb") as lines:
            for line in lines:
                with contextlib.suppress(ValueError, KeyError):
                    ended = self._take(json.loads(line)) or ended
        if not ended:
            # The watchdog was killed: the kernel ended the server, its children may live on.
            self.left = tuple(process.pid for process in sweep(self.run_id))
        self.exited.set()
        self._started.set()
        self._ended.set()

    def _take(self, message: dict[str, Any]) -> bool:
        match message["event"]:
            case "started":
                self.pid = message["pid"]
                self._started.set()
            case "failed":
                self._failure = message["error"]
            case "exited":
                self.exit_code = message["code"]
                self.exited.set()
            case "ended":
                self.left = tuple(message["left"])
                return True
        return False

    @property
    def url(self) -> str:
        """Base address, without a trailing slash."""
        return self.endpoint.url

    @property
    def pgid(self) -> int:
        """Process group and session of the server: its own."""
        return self.pid

    def wait_started(self) -> None:
        """Wait until the process runs; ServerStartError where it cannot be started."""
        self._started.wait(_START_SECONDS)
        if not self.pid:
            reason = self.redactor.text(self._failure or "the watchdog did not start it")
            raise self.failed(ServerStartError(f"the server's command cannot be run: {reason}"))

    def wait_ready(self, profile: Profile) -> None:
        """Wait until the server is ready; ServerStartError says why it is not."""
        began = time.monotonic()
        lines = vital.LogLines(self.log)
        pulse = vital.Pulse(lambda: vital.signs(self._watchdog.pid, lines))

        def look() -> None:
            if self.alive() and pulse.still() > profile.server.stall_timeout:
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
                # What runs in a container shows no sign of life here.
                look=None if self._stop_command else look,
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
        tree = self.processes()
        stacks = stacks_of(tree, self.log)
        self.stop(abort=True)
        if not stacks:
            stacks = told("\n".join(self.lines()))  # of those that wrote theirs when aborted
        error.symptoms = symptoms([error.problem, *self.lines()])
        halted = [f"{process} and could not say" for process in tree if process.halted]
        error.stacks = tuple(self.redactor.text(str(s)) for s in (*stacks, *halted))[:MOST_STACKS]
        return error

    def processes(self) -> tuple[vital.Process, ...]:
        """Return the server's living processes."""
        return vital.processes(self._watchdog.pid)

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
        error.phase = last_phase(self.lines())
        error.symptoms = symptoms([error.problem, *self.lines()])
        error.tail = self.tail(TAIL_LINES)
        error.log = str(self.log)
        return error

    def lines(self) -> Iterator[str]:
        """Yield the log's lines, secrets masked."""
        with contextlib.suppress(FileNotFoundError), self.log.open(errors="replace") as log:
            for line in log:
                yield self.redactor.text(line.rstrip("\n"))

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

    def _longest_end(self) -> float:
        pace = self._pace
        command = watchdog.STOP_COMMAND_SECONDS if self._stop_command else 0.0
        return command + pace.lead + 2 * pace.grace + watchdog.KILL_SECONDS + 10.0

    def alive(self) -> bool:
        """Whether the server's process runs."""
        return bool(self.pid) and not self.exited.is_set()

    def stop(self, *, abort: bool = False) -> None:
        """End the server and everything it started; return once all are gone.

        `abort` has its Python processes write their stacks to the log before they are killed.
        Raises RuntimeError where processes are left after SIGKILL.
        """
        with self._stopping:
            if self._control >= 0:
                # First of all, so that a second Ctrl-C below changes nothing; written and not
                # only closed, since a forked child of this process may hold a copy of the pipe.
                with contextlib.suppress(BrokenPipeError):
                    os.write(self._control, b"abort\n" if abort else b"stop\n")
                os.close(self._control)
                self._control = -1
        self.endpoint.close()
        ended = self._ended.wait(self._longest_end())
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._watchdog.wait(timeout=_START_SECONDS if ended else 0)
        self.redactor.file(self.log)
        if not ended or self.left:
            raise RuntimeError(
                f"the server's processes {list(self.left) or self.pid} did not end; they may hold "
                "GPU memory (nvidia-smi) until the machine is restarted"
            )
