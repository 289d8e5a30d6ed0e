"""What the pages say of the suite is so: options, modules, inputs, rooms."""

from __future__ import annotations

import argparse
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from eagle3_checks.cli import _parser
from eagle3_checks.rules.registry import codes
from tests_cpu.docs.pages import DOCS, ROOT, pages
from tests_cpu.guard.ci_files import ACTION, read
from tests_cpu.test_architecture import BELOW, STANDALONE

ALL = [*pages(), *sorted(DOCS.glob("rules/*.md")), ROOT / "CONTRIBUTING.md"]
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT).with_suffix(""))


def commands() -> dict[str, argparse.ArgumentParser]:
    action = next(a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


def options(command: argparse.ArgumentParser) -> set[str]:
    """Return the options of a command and of those below it."""
    below = (
        parser
        for action in command._actions
        if isinstance(action, argparse._SubParsersAction)
        for parser in action.choices.values()
    )
    return set(command._option_string_actions).union(*map(options, below))


def code_of(page: Path) -> Iterator[str]:
    """Yield the page's code: spans, and blocks with continued lines joined, line by line."""
    text = page.read_text().replace("\\\n", " ")
    blocks = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for block in blocks.finditer(text):
        yield from block[1].splitlines()
    yield from (span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", blocks.sub("", text)))


@pytest.mark.parametrize("page", ALL, ids=name)
def test_commands_and_options_exist(page: Path) -> None:
    known = commands()
    for code in code_of(page):
        for command in re.finditer(r"eagle3-checks ([a-z]+)([^|`]*)", code):
            assert command[1] in known, code
            own = re.sub(r"'[^']*'", "", command[2].partition(" -- ")[0])
            unknown = set(OPTION.findall(own)) - options(known[command[1]])
            assert not unknown, code


@pytest.mark.parametrize("page", ALL, ids=name)
def test_pytest_options_exist(page: Path, pytestconfig: pytest.Config) -> None:
    given = {option for code in code_of(page) for option in OPTION.findall(code)}
    own = {option for option in given if option.startswith("--eagle3-")}
    fields = {f"--{field.replace('_', '-')}" for field in vars(pytestconfig.option)}
    assert own <= fields


@pytest.mark.parametrize("page", ALL, ids=name)
def test_modules_and_scripts_exist(page: Path) -> None:
    for code in code_of(page):
        for module in re.findall(r"-m ((?:eagle3_checks|benchmarks|tests_cpu)[\w.]+)", code):
            assert importlib.util.find_spec(module), code
        for script in re.findall(r"python (\w+/[\w/]+\.py)", code):
            assert (ROOT / script).is_file(), code


@pytest.mark.parametrize("page", ALL, ids=name)
def test_rules_that_are_named_exist(page: Path) -> None:
    families = "|".join({code[:3] for code in codes()})
    assert set(re.findall(rf"\b(?:{families})\d{{3}}\b", page.read_text())) <= set(codes())


def test_every_input_of_the_action_is_told() -> None:
    page = (DOCS / "guides" / "ci.md").read_text()
    action = read(ACTION)
    for name_ in action["inputs"]:
        assert f"\n| `{name_}` | " in page
    for name_ in action["outputs"]:
        assert f"`{name_}`" in page


def test_every_room_is_told() -> None:
    page = (DOCS / "design.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page[page.index("| room |") :], re.MULTILINE)
    told = {room for row in rows for room in re.findall(r"`(\w+)`", row)}
    assert told == {room for room in BELOW if not room.startswith("__")} | {STANDALONE}
