"""The runner of the pages' commands: what it takes, what it refuses, what it lets differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests_cpu.docs.pages import Step, steps
from tests_cpu.docs.runner import PageRun, differs


def read(folder: Path, text: str) -> tuple[Step, ...]:
    page = folder / "page.md"
    page.write_text(text)
    return steps(page)


@pytest.mark.parametrize(
    "block",
    [
        "```console\n$ rm it\n```",
        "```bash\nrm it\n```",
        "```\n$ rm it\n```",
        "```\neagle3-checks bisect\n```",
    ],
)
def test_a_block_of_commands_needs_a_mark(tmp_path: Path, block: str) -> None:
    assert [step.kind for step in read(tmp_path, f"Text\n\n{block}\n")] == [""]


def test_a_block_of_anything_else_does_not(tmp_path: Path) -> None:
    text = "```text\n$ it\n```\n\n```\nACC001 fails\n```\n\n```yaml\n- run: it\n```\n"
    assert read(tmp_path, text) == ()


def test_marks_are_read(tmp_path: Path) -> None:
    text = (
        "<!-- with: pair healthy t d -->\n<!-- run -->\n```console\n$ a \\\n    b\nout\n$ c\n```\n"
        "<!-- serve, exit 1 -->\n```bash\na\nb\n```\n"
        "<!-- run, exit 8, figures vary -->\n```console\n$ e\n```\n"
        "<!-- not run: no network -->\n```console\n$ d\n```\n<!-- file: p.toml -->\n```toml\n```\n"
    )
    stand_in, run, serve, varying, not_run, file = read(tmp_path, text)
    assert (run.exact, serve.exact, varying.exact) == (True, False, False)
    assert (run.exit_code, varying.exit_code) == (0, 8)
    assert (stand_in.kind, stand_in.about) == ("with", "pair healthy t d")
    first, second = run.commands()
    assert (first.words, first.shown) == ("a \\\n    b\n", "out\n")
    assert (second.words, second.shown) == ("c\n", "")
    assert (serve.kind, serve.exit_code) == ("serve", 1)
    assert [command.words for command in serve.commands()] == ["a\nb\n"]
    assert (not_run.kind, not_run.about) == ("not run", "no network")
    assert (file.kind, file.about) == ("file", "p.toml")


@pytest.mark.parametrize(
    "text",
    [
        "<!-- run -->\n\nText between.\n\n```console\n$ a\n```\n",
        "<!-- run -->\n<!-- serve -->\n```console\n$ a\n```\n",
        "<!-- not run -->\n```console\n$ a\n```\n",
        "<!-- run, somehow -->\n```console\n$ a\n```\n",
        "<!-- skip -->\n```console\n$ a\n```\n",
        "Text\n\n<!-- run -->\n",
    ],
)
def test_a_mark_that_would_be_passed_over_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"page\.md"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("shown", "printed", "figures", "same"),
    [
        ("a  b\nc\n", "a b c\n", True, True),
        ("a 1\n", "a 2\n", True, False),
        ("a 1.5 tok\n", "a 23 456.7 tok\n", False, True),
        ("a\n", "a\nb\n", True, False),
        ("b\n", "a\nb\n", True, False),
        ("...\nb\n", "a\nb\n", True, True),
        ("...\nb\n", "a\nb\nc\n", True, False),
        ("a\n...\n", "a\nb\n", True, True),
        ("a\n...\nc\n...\n", "a\nb\nc\nd\n", True, True),
        ("a\n...\nx\n...\n", "a\nb\nc\nd\n", True, False),
        ("done in 3.1s\n", "done in 66.1s (0:01:06)\n", False, True),
    ],
)
def test_what_may_differ(shown: str, printed: str, *, figures: bool, same: bool) -> None:
    assert (not differs(shown, printed, figures=figures)) is same


def test_commands_share_a_folder_and_stop_at_nothing(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- file: a/b.txt -->\n```text\nhere\n```\n"
        "<!-- run -->\n```console\n$ cat a/b.txt >c.txt\n$ cat c.txt; pwd; false\n```\n"
    )
    with PageRun(tmp_path) as run:
        ran = [done for step in steps(page) for done in run.do(step)]
    assert [(done.code, done.printed) for done in ran] == [(0, ""), (1, "here\n~/work\n")]
