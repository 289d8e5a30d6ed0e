"""Pages of docs/ as the commands in them: which block is run, how, and what it is said to print.

A comment before a block says what becomes of it; none is seen by a reader:

- ``<!-- run -->``: run in the page's folder, and its output compared with what is shown;
- ``<!-- serve -->``: the same in a test that starts the real server, whose figures vary;
- ``<!-- not run: REASON -->``: needs what a test has not;
- ``<!-- file: NAME -->``: written into the page's folder;
- ``<!-- shows: PATH -->``: is part of that file of docs/;
- ``exit N`` after ``run`` or ``serve``: the last command's exit code, where it is not 0; and
  ``figures vary`` after ``run``, where numbers are measured.

``<!-- with: STAND-IN … -->`` stands alone and puts files in place (`stand_ins`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SHELL = frozenset({"console", "sh", "bash", "shell", "shell-session", "zsh"})
PROGRAMS = ("$ ", "eagle3-checks ", "pytest ", "python ", "pip ", "git ", "tox ", "pre-commit ")
RUN = re.compile(r"(?P<kind>run|serve)(?:, exit (?P<code>\d+))?(?P<vary>, figures vary)?")
PARTS = re.compile(
    r"^<!-- (?P<mark>[^>]*?) -->$"
    r"|^(?P<fence>`{3,})(?P<language>[\w{}-]*)[^\n]*\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command of a block, and the output that stands below it."""

    words: str
    shown: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a page asks for at one place, in order: a block with its mark, or a stand-in."""

    line: int
    kind: str
    """As the module's docstring names them; empty for a shell block without a mark."""
    about: str = ""
    """Reason, file name, or stand-in with its words."""
    exit_code: int = 0
    exact: bool = True
    """Whether the figures that are shown are always the same."""
    text: str = ""
    start: int = 0
    """Where `text` begins in the page."""

    def commands(self) -> Iterator[Command]:
        """Yield the block's commands; where none is marked by ``$`` the block is one without."""
        lines = self.text.splitlines(keepends=True)
        if not any(line.startswith("$ ") for line in lines):
            yield Command(words=self.text, shown="")
            return
        while lines:
            words = lines.pop(0).removeprefix("$ ")
            while words.endswith("\\\n"):
                words += lines.pop(0)
            shown = ""
            while lines and not lines[0].startswith("$ "):
                shown += lines.pop(0)
            yield Command(words=words, shown=shown)


def pages() -> tuple[Path, ...]:
    """Return the pages that people write: those of rules are made from their declarations."""
    written = (p for p in DOCS.rglob("*.md") if p.parent.name != "rules")
    return (ROOT / "README.md", *sorted(written))


def steps(page: Path) -> tuple[Step, ...]:
    """Read what a page asks for. Raises ValueError for a mark that cannot be understood."""
    text = page.read_text()
    found: list[Step] = []
    mark, end = "", 0
    for part in PARTS.finditer(text):
        line = text.count("\n", 0, part.start()) + 1
        if text[end : part.start()].strip():
            mark = _unused(mark, page, line)
        end = part.end()
        if part["mark"] is not None:
            mark = _unused(mark, page, line) or part["mark"]
            if mark.startswith("with: "):
                found.append(Step(line=line, kind="with", about=mark.removeprefix("with: ")))
                mark = ""
        elif mark or part["language"] in SHELL or _looks_like_commands(part):
            where = {"line": line, "text": part["text"], "start": part.start("text")}
            found.append(_step(mark, page, where))
            mark = ""
    _unused(mark, page, 0)
    return tuple(found)


def _unused(mark: str, page: Path, line: int) -> str:
    if mark:
        raise ValueError(f"{page.name}:{line}: no block follows <!-- {mark} -->")
    return ""


def _looks_like_commands(part: re.Match[str]) -> bool:
    return part["language"] == "" and part["text"].startswith(PROGRAMS)


def _step(mark: str, page: Path, where: dict[str, object]) -> Step:
    run = RUN.fullmatch(mark)
    if run:
        exact = run["kind"] == "run" and not run["vary"]
        return Step(kind=run["kind"], exit_code=int(run["code"] or 0), exact=exact, **where)  # type: ignore[arg-type]
    kind, _, about = mark.partition(": ")
    if not mark or (kind in ("not run", "file", "shows") and about.strip()):
        return Step(kind=kind, about=about, **where)  # type: ignore[arg-type]
    raise ValueError(f"{page.name}:{where['line']}: <!-- {mark} --> says nothing that is known")
