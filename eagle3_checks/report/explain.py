"""A rule's declaration as text."""

from __future__ import annotations

import textwrap

from eagle3_checks.rules.base import WHERE_FROM
from eagle3_checks.rules.registry import all_rules, by_code

WIDTH = 79


def explain(code: str) -> str:
    """Return the page of one rule. Raises KeyError with the known codes."""
    rule = by_code(code)
    parts = [
        f"{rule.code()}  {rule.title}",
        f"severity: {rule.severity.value}",
        "looks at: " + "; ".join(WHERE_FROM[name] for name in rule.needs()),
    ]
    if rule.requires:
        parts.append("after:    " + ", ".join(rule.requires))
    for heading, text in (("Why it matters", rule.why), ("How to fix", rule.fix)):
        body = textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  ")
        parts += ["", heading, body]
    if rule.references:
        parts += ["", "References", *(f"  {reference}" for reference in rule.references)]
    return "\n".join(parts)


def listing() -> str:
    """Return one line a rule."""
    return "\n".join(f"{r.code()}  {r.severity.value:8} {r.title}" for r in all_rules())
