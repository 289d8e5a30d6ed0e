"""``python -m tests_cpu.docs.capture PAGE…``: write below each command what it prints.

Commands without any output below them stay so, and so do outputs with a line ``...`` and blocks
that need the real server.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests_cpu.docs.pages import steps
from tests_cpu.docs.runner import ELIDED, PageRun


def capture(page: Path) -> None:
    """Rewrite one page."""
    text = page.read_text()
    shift = 0
    with tempfile.TemporaryDirectory() as home, PageRun(Path(home)) as run:
        for step in steps(page):
            if step.kind == "serve":
                continue
            block = ""
            for ran in run.do(step):
                shown = ran.command.shown
                fresh = shown and ELIDED not in shown
                block += f"$ {ran.command.words}{ran.printed if fresh else shown}"
            if "$ " in step.text and block:
                start = step.start + shift
                text = text[:start] + block + text[start + len(step.text) :]
                shift += len(block) - len(step.text)
    page.write_text(text)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        capture(Path(argument))
