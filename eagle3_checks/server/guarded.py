"""A server's process under its watchdog: started, followed, ended."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eagle3_checks.server import vital, watchdog
from eagle3_checks.server.leftovers import sweep

QUICK = watchdog.Pace(lead=0.0, grace=2.0)
"""On the CPU engine. SGLang's ranks end at once; its first process looks for the signal every 5 s
(``sigterm_watchdog``) and has nothing left to do by then."""
ORDERLY = watchdog.Pace(lead=6.0, grace=10.0)
"""On GPUs: the first process gets its 5 s to end the ranks in order, since a rank that is killed
while it frees GPU memory may leave it taken."""
START_SECONDS = 60.0


class Guarded:
    """A process that a watchdog started and will end, whatever happens to this process."""

    def __init__(  # noqa: PLR0913 - what a launch consists of
        self,
        *,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        log: Path,
        run_id: str,
        temporary: str,
        pace: watchdog.Pace,
        stop_command: tuple[str, ...],
        kept: tuple[int, ...],
    ) -> None:
        self.log = log
        self.run_id = run_id
        self.temporary = temporary
        self.pid = 0
        self.exit_code: int | None = None
        self.left: tuple[int, ...] = ()
        """Processes that even SIGKILL did not end."""
        self.exited = threading.Event()
        self._failure = ""
        self._started = threading.Event()
        self._ended = threading.Event()
        self._stopping = threading.Lock()
        self._control = -1
        self._pace = pace
        self._stop_command = stop_command
        self._kept = kept
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
                pass_fds=(control_read, status_write, *self._kept),
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
    def pgid(self) -> int:
        """Process group and session of the server: its own."""
        return self.pid

    def ended(self) -> bool:
        """Whether the server's process has ended."""
        return self.exited.is_set()

    def processes(self) -> tuple[vital.Process, ...]:
        """Return the server's living processes."""
        return vital.processes(self._watchdog.pid)

    def _longest_end(self) -> float:
        pace = self._pace
        command = watchdog.STOP_COMMAND_SECONDS if self._stop_command else 0.0
        return command + pace.lead + 2 * pace.grace + watchdog.KILL_SECONDS + 10.0

    def alive(self) -> bool:
        """Whether the server's process runs."""
        return bool(self.pid) and not self.exited.is_set()

    def close(self) -> None:
        """Do what is left to do once the processes are gone."""

    def stop(self, how: bytes = watchdog.STOP) -> None:
        """End the server and everything it started; return once all are gone.

        `how` may have its Python processes write their stacks to the log before they are killed
        (``watchdog.ABORT``, ``DUMP``). Raises RuntimeError where processes are left after SIGKILL.
        """
        with self._stopping:
            if self._control >= 0:
                # First of all, so that a second Ctrl-C below changes nothing; written and not
                # only closed, since a forked child of this process may hold a copy of the pipe.
                with contextlib.suppress(BrokenPipeError):
                    os.write(self._control, how + b"\n")
                os.close(self._control)
                self._control = -1
        ended = self._ended.wait(self._longest_end())
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._watchdog.wait(timeout=START_SECONDS if ended else 0)
        self.close()
        if not ended or self.left:
            raise RuntimeError(
                f"the server's processes {list(self.left) or self.pid} did not end; they may hold "
                "GPU memory (nvidia-smi) until the machine is restarted"
            )
