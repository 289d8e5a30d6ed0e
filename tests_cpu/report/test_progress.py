from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eagle3_checks.facts import Interval
from eagle3_checks.measure.progress import SILENT
from eagle3_checks.report.progress import TerminalProgress, running

ESTIMATE = Interval(value=2.23, low=2.15, high=2.31, level=0.95, n=40)


class Screen:
    """A terminal, and what was written to it."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self.written = b""

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, self._columns, 0, 0))
        reader = threading.Thread(target=self._read, args=(ours,))
        reader.start()
        try:
            yield theirs
        finally:
            os.close(theirs)
            reader.join(10)
            os.close(ours)

    def _read(self, ours: int) -> None:
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other end is closed
                return
            if not part:
                return
            self.written += part

    def plain(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.written.decode())


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Screen]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLUMNS", raising=False)
    return Screen


def watched(screen: Screen) -> None:
    with screen.opened() as end, os.fdopen(os.dup(end), "w") as terminal:
        progress = TerminalProgress(terminal, contextlib.nullcontext)
        progress.begin("accept length", 80)
        progress.update(4, None, verify_steps=7)
        progress.update(40, ESTIMATE, verify_steps=900)
        progress.end()
        progress.end()  # safe to call twice


def test_the_estimate_is_shown_with_its_interval(screen: Callable[[int], Screen]) -> None:
    shown = screen(80)
    watched(shown)
    assert re.search(r"accept length +2\.23 \[2\.15, 2\.31\] .* 40/80", shown.plain())
    assert shown.written.endswith(b"\x1b[2K")  # the line is taken away


@pytest.mark.parametrize("columns", [40, 60, 120])
def test_it_keeps_to_one_line(screen: Callable[[int], Screen], columns: int) -> None:
    shown = screen(columns)
    watched(shown)
    lines = [line.strip() for line in re.split(r"[\r\n]+", shown.plain()) if line.strip()]
    assert all(line.startswith("accept length") for line in lines)
    assert max(map(len, lines)) <= columns


def test_without_colour(monkeypatch: pytest.MonkeyPatch, screen: Callable[[int], Screen]) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    shown = screen(80)
    watched(shown)
    assert b"2.23 [2.15, 2.31]" in shown.written
    assert not re.search(rb"\x1b\[[0-9;]*3[0-9]m", shown.written)


def test_an_update_before_the_beginning_is_nothing(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        progress = TerminalProgress(out, contextlib.nullcontext)
        progress.update(1, ESTIMATE)
        progress.end()
    assert (tmp_path / "out").read_text() == ""


def test_silence() -> None:
    SILENT.begin("accept length", 80)
    SILENT.update(1, ESTIMATE, verify_steps=3)
    SILENT.end()


def test_no_estimate_yet() -> None:
    assert running(None) == ""


def test_pytest_shows_it_on_a_terminal_alone(
    pytester: pytest.Pytester, screen: Callable[[int], Screen]
) -> None:
    pytester.makepyfile(
        """
        from eagle3_checks.facts import Interval
        from eagle3_checks.session import GateSession

        def test_measures(pytestconfig, capfd):
            progress = GateSession(pytestconfig, None, None)._progress()
            progress.begin("accept length", 80)
            print("captured")
            progress.update(40, Interval(value=2.23, low=2.15, high=2.31, level=0.95, n=40))
            progress.end()
            assert capfd.readouterr().out == "captured\\n"
        """
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    piped = subprocess.run(command, capture_output=True, text=True, check=True, cwd=pytester.path)
    assert "2.23" not in piped.stdout
    shown = screen(80)
    with shown.opened() as end:
        subprocess.run(command, stdout=end, stderr=end, check=True, cwd=pytester.path)
    assert "2.23 [2.15, 2.31]" in shown.plain()
    assert "1 passed" in shown.plain()


def test_a_start_names_what_it_does(screen: Callable[[int], Screen]) -> None:
    terminal = screen(80)
    with terminal.opened() as fd, os.fdopen(os.dup(fd), "w") as out:
        progress = TerminalProgress(out, contextlib.nullcontext)
        progress.say("before it begins", 1)
        progress.begin("server start", 120)
        progress.say("loading the target's weights, 2 of 62 shards", 30)
        progress.say("capturing graphs", 300)
        progress.end()
        progress.say("after its end", 1)
    shown = terminal.plain()
    assert "loading the target's weights, 2 of 62 shards" in shown
    assert "30/120" in shown
    assert "capturing graphs" in shown
    assert "before" not in shown
    assert "after" not in shown
