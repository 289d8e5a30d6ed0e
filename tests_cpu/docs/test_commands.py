"""Every command in docs/ is run, or says why not; what a page shows is what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests_cpu.docs.pages import DOCS, ROOT, pages, steps
from tests_cpu.docs.runner import PageRun, differs


def having(kind: str) -> list[Path]:
    return [page for page in pages() if any(step.kind == kind for step in steps(page))]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT).with_suffix(""))


def run_page(page: Path, home: Path, *kinds: str) -> None:
    """Run the page's blocks of these kinds, and judge those of the last."""
    with PageRun(home) as run:
        for step in steps(page):
            if step.kind not in ("with", "file", *kinds):
                continue
            ended = list(run.do(step))
            for ran in ended if step.kind == kinds[-1] else ():
                where = f"{page.name}:{step.line}: {ran.command.words}"
                wanted = step.exit_code if ran is ended[-1] else 0
                assert ran.code == wanted, f"{where}{ran.printed}"
                if ran.command.shown:
                    wrong = differs(ran.command.shown, ran.printed, figures=step.exact)
                    assert not wrong, f"{where}{wrong}"


@pytest.mark.parametrize("page", having("run"), ids=name)
def test_the_commands_of(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path, "run")


@pytest.mark.serve
@pytest.mark.parametrize("page", having("serve"), ids=name)
def test_the_server_commands_of(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path, "run", "serve")


@pytest.mark.parametrize("page", having("shows"), ids=name)
def test_what_is_shown_is_in_the_file(page: Path) -> None:
    for step in steps(page):
        if step.kind == "shows":
            assert step.text in (DOCS / step.about).read_text(), f"{page.name}:{step.line}"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_command_is_run_or_says_why_not(page: Path) -> None:
    bare = [f"{page.name}:{step.line}" for step in steps(page) if not step.kind]
    assert not bare, "mark these blocks as tests_cpu/docs/pages.py says"
