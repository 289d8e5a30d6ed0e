"""What a measurement tells while it runs. Renderers are elsewhere; nothing here prints."""

from __future__ import annotations

from typing import Protocol

from eagle3_checks.facts import Interval


class Progress(Protocol):
    """Listens to one measurement at a time, from the thread that measures.

    ``begin``, any number of ``update``, ``end``; ``end`` is called however the measurement ends.
    """

    def begin(self, what: str, total: int) -> None:
        """Start: `what` is measured ("accept length") over at most `total` prompts."""

    def update(self, done: int, estimate: Interval | None, *, verify_steps: int = 0) -> None:
        """Tell that `done` prompts are answered, and the estimate over them, where there is one."""

    def say(self, what: str, done: float) -> None:
        """Tell what is done now, and how much of the total is over, where nothing is estimated."""

    def end(self) -> None:
        """Finish; what was shown is taken away."""


class Silent:
    """Progress that nobody watches."""

    def begin(self, what: str, total: int) -> None:
        """Say nothing."""

    def update(self, done: int, estimate: Interval | None, *, verify_steps: int = 0) -> None:
        """Say nothing."""

    def say(self, what: str, done: float) -> None:
        """Say nothing."""

    def end(self) -> None:
        """Say nothing."""


SILENT: Progress = Silent()
