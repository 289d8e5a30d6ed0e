"""The rules that files alone suffice for, and the facts they take."""

from __future__ import annotations

from eagle3_checks.checkpoint.subject import Subject
from eagle3_checks.contract.version import Contract
from eagle3_checks.rules.base import STATIC_FACTS, Facts, Rule
from eagle3_checks.rules.registry import all_rules


def static_rules() -> tuple[type[Rule], ...]:
    """Return the rules that need neither a server nor a profile."""
    enough = STATIC_FACTS - {"speculation", "serving"}
    return tuple(rule for rule in all_rules() if set(rule.needs()) <= enough)


def static_facts(files: Subject, contract: Contract, *, values: bool = False) -> Facts:
    """Read what these rules judge; with `values`, every byte of the weights."""
    return Facts(
        manifest=files.manifest,
        vocab=files.vocab,
        draft=files.draft,
        target=files.target,
        contract=contract,
        tokenizer=files.tokenizer,
        values=files.values if values else None,
    )
