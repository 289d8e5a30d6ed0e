"""Runs the commands of one page in a folder of its own, as a reader would type them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests_cpu.docs.pages import ROOT, Command, Step
from tests_cpu.docs.stand_ins import prepare

BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
CHECKOUT = "~/eagle3-checks"
"""How the clone is called on the pages."""
ELIDED = "...\n"
SECONDS = 300


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A command of a page, and what it did."""

    command: Command
    code: int
    printed: str


@dataclass
class PageRun:
    """One page's folder, ``~/work``; a context manager that ends what the page started."""

    home: Path
    replaced: dict[str, str] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        """Make the folder."""
        self.folder = self.home / "work"
        self.folder.mkdir()

    def __enter__(self) -> Self:
        """Return the run; nothing is started yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End servers."""
        self.stack.close()

    def do(self, step: Step) -> Iterator[Ran]:
        """Do what a step asks for; yields its commands as they end, and stops at a failed one."""
        if step.kind == "with":
            self.replaced |= prepare(step.about, self.folder, self.stack)
        elif step.kind == "file":
            (self.folder / step.about).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / step.about).write_text(step.text)
        elif step.kind in ("run", "serve"):
            for command in step.commands():
                yield self._run(command)

    def _run(self, command: Command) -> Ran:
        words = command.words
        for documented, real in self.replaced.items():
            words = words.replace(documented, real)
        done = subprocess.run(
            [*BASH, words],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        printed = done.stdout.replace(str(ROOT), CHECKOUT).replace(str(self.home), "~")
        for documented, real in self.replaced.items():
            printed = printed.replace(real, documented)
        return Ran(command=command, code=done.returncode, printed=_unpadded(printed))

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("EAGLE3_", "GITHUB_", "PYTEST_", "COV_"))
        }
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"HOME": str(self.home), "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
        return kept | own | {"PATH": programs, "LC_ALL": "C.UTF-8"}


def _unpadded(text: str) -> str:
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def differs(shown: str, printed: str, *, figures: bool) -> str:
    """Say how what is shown differs from what was printed, or nothing.

    Line breaks and padding do not count (paths differ in length), nor how many rules there are; a
    line ``...`` stands for any lines; without `figures` every number stands for any other.
    """
    seen = _normal(printed, figures=figures)
    pieces = [_normal(piece, figures=figures) for piece in shown.split(ELIDED)]
    at = 0
    for index, piece in enumerate(pieces):
        found = seen.find(piece, at)
        starts = index > 0 or found == 0
        if found < 0 or not starts:
            return f"shown:\n{shown}\nprinted:\n{printed}"
        at = found + len(piece)
    if pieces[-1] and seen[at:].strip():
        return f"printed below what is shown:\n{seen[at:]}\nin full:\n{printed}"
    return ""


def _normal(text: str, *, figures: bool) -> str:
    text = re.sub(r"\b\d+ (passed|skipped|deselected)", r"# \1", text)
    if not figures:
        text = re.sub(r" \(\d+:\d\d:\d\d\)", "", text)
        text = re.sub(r"\d+(?: \d{3})*(?:\.\d+)?", "#", text)
    return " ".join(text.split())
