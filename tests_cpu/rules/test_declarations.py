from __future__ import annotations

import pytest

from eagle3_checks.rules.base import STATIC_FACTS, Rule, fact_names
from eagle3_checks.rules.registry import all_rules, by_code, codes
from eagle3_checks.verdict import Severity

ALL = all_rules()


def test_codes_are_unique_and_found_in_any_case() -> None:
    assert len(set(codes())) == len(ALL)
    assert by_code(" key001 ").code() == "KEY001"
    assert codes("ACC") == ("ACC001", "ACC002", "ACC003", "ACC004", "ACC005", "ACC006")


def test_an_unknown_code_names_the_known_ones() -> None:
    with pytest.raises(KeyError, match="no rule 'KEY999'; the rules are SRC001"):
        by_code("KEY999")


@pytest.mark.parametrize("rule", ALL, ids=[r.code() for r in ALL])
def test_a_rule_is_declared_in_full(rule: type[Rule]) -> None:
    assert rule.__doc__
    assert rule.title
    assert not rule.title.endswith(".")
    assert rule.why.endswith(".")
    assert rule.fix.endswith(".")
    assert isinstance(rule.severity, Severity)
    assert set(rule.needs()) <= set(rule.takes()) <= set(fact_names())
    assert all(r.startswith(("https://", "docs/")) for r in rule.references)
    assert rule.check.__doc__


@pytest.mark.parametrize("rule", ALL, ids=[r.code() for r in ALL])
def test_prerequisites_exist_and_ask_for_no_more_stages(rule: type[Rule]) -> None:
    for code in rule.requires:
        prerequisite = by_code(code)
        assert codes().index(code) < codes().index(rule.code())
        if set(rule.needs()) <= STATIC_FACTS:
            assert set(prerequisite.needs()) <= STATIC_FACTS


def test_a_fact_with_a_default_is_one_a_rule_can_do_without() -> None:
    rule = by_code("CFG002")
    assert set(rule.takes()) - set(rule.needs()) == {"serving"}
