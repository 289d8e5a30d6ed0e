from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_checks.report.explain import examples, explain, listing
from eagle3_checks.report.rule_docs import COMMAND, FAMILIES, INDEX, main, pages, stale, write
from eagle3_checks.rules.registry import all_rules, codes

HEADINGS = ["What it checks", "Why it is bad", "Example", "How to fix", "References"]


def test_the_pages_are_current() -> None:
    assert stale() == (), f"run `{COMMAND}`"


def test_every_rule_has_an_example() -> None:
    missing = set(codes()) - set(examples())
    assert not missing, "run `python -m pytest -q -p tests_cpu.examples tests_cpu/rules`"
    assert set(examples()) <= set(codes())


@pytest.mark.parametrize("code", codes())
def test_a_page_has_all_headings_and_fits(code: str) -> None:
    text = explain(code)
    assert [line for line in text.splitlines() if line in HEADINGS] == HEADINGS
    lines = [line for line in text.splitlines() if "https://" not in line]
    assert max(map(len, lines)) < 80
    assert text.startswith(f"{code}  ")


def test_the_list_and_the_index_name_every_rule() -> None:
    index = pages()[INDEX]
    for rule in all_rules():
        assert rule.title in listing()
        assert f"[{rule.code()}]({rule.code()}.md)" in index
        assert rule.family() in FAMILIES


def test_pages_of_rules_that_are_gone_are_removed(tmp_path: Path) -> None:
    (tmp_path / "OLD001.md").write_text("x")
    assert main([str(tmp_path), "--check"]) == 1
    write(tmp_path)
    assert stale(tmp_path) == ()
    assert main([str(tmp_path), "--check"]) == 0
    (tmp_path / INDEX).write_text("changed")
    assert stale(tmp_path) == (INDEX,)
