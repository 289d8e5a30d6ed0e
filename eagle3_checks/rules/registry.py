"""All rules, in the order in which reports list them."""

from __future__ import annotations

from functools import cache

from eagle3_checks.rules import (
    acc,
    cfg,
    fus,
    key,
    los,
    los_kinds,
    spd,
    src,
    srv,
    val,
    voc,
    wir,
    wir_parts,
    wir_values,
    wir_weights,
)
from eagle3_checks.rules.base import Rule

_FAMILIES = (
    src.RULES,
    cfg.RULES,
    key.RULES,
    fus.RULES,
    voc.RULES,
    val.RULES,
    srv.RULES,
    wir.RULES,
    wir_values.RULES,
    wir_parts.RULES,
    wir_weights.RULES,
    acc.RULES,
    los.RULES,  # before SPD, whose comparison ends a launched server
    los_kinds.RULES,
    spd.RULES,
)


@cache
def all_rules() -> tuple[type[Rule], ...]:
    """Return every rule: files first, then the server, then measurements."""
    return tuple(rule for family in _FAMILIES for rule in family)


def codes(family: str = "") -> tuple[str, ...]:
    """Return the codes of one family, as in KEY, or of all."""
    return tuple(rule.code() for rule in all_rules() if family in ("", rule.family()))


def by_code(code: str) -> type[Rule]:
    """Return the rule with this code, in any case; KeyError names the known codes."""
    wanted = code.strip().upper()
    for rule in all_rules():
        if rule.code() == wanted:
            return rule
    known = ", ".join(rule.code() for rule in all_rules())
    raise KeyError(f"no rule {code!r}; the rules are {known}")
