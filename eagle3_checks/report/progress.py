"""The running estimate of a measurement on the terminal's last line."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from eagle3_checks.facts import Interval


class TerminalProgress:
    """A bar and the estimate with its interval; gone when the measurement ends.

    pytest captures what tests write, so the terminal is reached through a copy of its file
    descriptor that is made while `uncaptured` holds.
    """

    def __init__(
        self, terminal: TextIO, uncaptured: Callable[[], AbstractContextManager[object]]
    ) -> None:
        """Nothing is shown before a measurement begins."""
        self._terminal = terminal
        self._uncaptured = uncaptured
        self._out: TextIO | None = None
        self._shown: Progress | None = None
        self._task = TaskID(0)

    def begin(self, what: str, total: int) -> None:
        """Show an empty bar."""
        self.end()
        with self._uncaptured():
            self._out = os.fdopen(os.dup(self._terminal.fileno()), "w", encoding="utf-8")
        self._out.write("\n")  # leaves the line of dots that pytest is writing
        console = Console(file=self._out, force_terminal=True, width=_columns(self._out))
        self._shown = Progress(
            TextColumn("{task.description}"),
            TextColumn("{task.fields[estimate]}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            console=console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            expand=True,
        )
        self._task = self._shown.add_task(what, total=total, estimate="")
        self._shown.start()

    def update(self, done: int, estimate: Interval | None, *, verify_steps: int = 0) -> None:
        """Move the bar and show the estimate."""
        del verify_steps  # a narrow terminal has no room for it
        if self._shown is not None:
            text = running(estimate)
            self._shown.update(self._task, completed=done, estimate=text, refresh=True)

    def say(self, what: str, done: float) -> None:
        """Name what is done now, and move the bar; what takes longer than thought stays full."""
        if self._shown is not None:
            self._shown.update(self._task, description=what, completed=done, refresh=True)

    def end(self) -> None:
        """Take the line away."""
        if self._shown is not None:
            self._shown.stop()
            self._shown = None
        if self._out is not None:
            self._out.close()
            self._out = None


def running(estimate: Interval | None) -> str:
    """Write an estimate as it stands, as in ``2.23 [2.15, 2.31]``; brackets are no markup."""
    if estimate is None:
        return ""
    digits = 2 if estimate.value < 10 else 1  # noqa: PLR2004 - three or four digits do
    low, high = (f"{end:.{digits}f}" for end in (estimate.low, estimate.high))
    return f"{estimate.value:.{digits}f} \\[{low}, {high}]"


def _columns(terminal: TextIO) -> int | None:
    """Width of the terminal itself: rich asks standard streams, which pytest has replaced."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns or None
    except OSError:
        return None
