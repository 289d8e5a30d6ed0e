"""A rule's declaration as a page: the same headings in a terminal and in docs/rules."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from eagle3_checks.repackage.offers import FIXES
from eagle3_checks.rules.base import WHERE_FROM, Rule
from eagle3_checks.rules.registry import all_rules, by_code

WIDTH = 79
INDENT = "  "


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading and what stands under it."""

    heading: str
    paragraphs: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """Lines to be shown as they are, or references, one a line."""


def explain(code: str) -> str:
    """Return the page of one rule as text. Raises KeyError with the known codes."""
    rule = by_code(code)
    parts = [*_wrapped(f"{rule.code()}  {rule.title}", ""), f"severity: {rule.severity.value}"]
    for section in sections(rule):
        parts += ["", section.heading]
        for paragraph in section.paragraphs:
            parts += _wrapped(paragraph, INDENT)
        parts += [f"{INDENT}{line}" for line in section.lines]
    return "\n".join(parts)


def listing(start: str = "") -> str:
    """Return one line for each rule whose code starts so, as in KEY; empty where none does."""
    rules = [rule for rule in all_rules() if rule.code().startswith(start.strip().upper())]
    return "\n".join(f"{r.code()}  {r.severity.value:8} {r.title}" for r in rules)


def sections(rule: type[Rule]) -> Iterator[Section]:
    """Yield a rule's sections, the same ones in the same order for every rule."""
    looks = "It looks at " + "; ".join(WHERE_FROM[name] for name in rule.needs())
    more = [WHERE_FROM[name] for name in rule.takes() if name not in rule.needs()]
    looks += f"; where there, {'; '.join(more)}." if more else "."
    checks = [" ".join((rule.__doc__ or rule.title).split()), looks]
    if rule.requires:
        one = "one of " if len(rule.requires) > 1 else ""
        checks.append(f"It is skipped where {one}{', '.join(rule.requires)} fails.")
    yield Section(heading="What it checks", paragraphs=tuple(checks))
    yield Section(heading="Why it is bad", paragraphs=(rule.why,))
    yield Section(heading="Example", lines=tuple(_example(rule)))
    offer = FIXES.get(rule.code())
    fix = (rule.fix, f"`eagle3-checks repackage` {offer}.") if offer else (rule.fix,)
    yield Section(heading="How to fix", paragraphs=fix)
    yield Section(
        heading="References", lines=rule.references or (f"eagle3_checks/rules/{_module(rule)}",)
    )


@cache
def examples() -> dict[str, str]:
    """Return messages of findings, by code; ``tests_cpu/examples.py`` collects them."""
    text = Path(__file__).with_name("examples.json").read_text(encoding="utf-8")
    found: dict[str, str] = json.loads(text)
    return found


def _example(rule: type[Rule]) -> Iterator[str]:
    """Yield a finding of the rule as the terminal shows it."""
    room = WIDTH - len(INDENT) - len(" FAIL")
    head, *rest = textwrap.wrap(f"{rule.code()} {rule.title}", room, subsequent_indent=INDENT)
    label = "FAIL" if rule.severity.value == "error" else rule.severity.value.upper()
    yield f"{head.ljust(room + 4 - len(label))} {label}"
    yield from rest
    message = examples().get(rule.code(), "")
    yield from textwrap.wrap(message, room, initial_indent=INDENT, subsequent_indent=INDENT)


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _module(rule: type[Rule]) -> str:
    return f"{rule.__module__.rpartition('.')[2]}.py"
