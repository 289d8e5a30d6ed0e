"""Static findings of a drafter's files, without a profile or a server."""

from __future__ import annotations

from eagle3_checks.checkpoint.subject import Subject
from eagle3_checks.contract.version import contract_for, known_versions
from eagle3_checks.report.result import Result, build_result
from eagle3_checks.rules.base import STATIC_FACTS, Facts, run_rules
from eagle3_checks.rules.registry import all_rules
from eagle3_checks.verdict import Status, judge


def inspect(drafter: str, target: str = "", sglang: str = "") -> Result:
    """Judge a drafter (folder or hub id) for one SGLang version, the newest known by default.

    Raises ContractError for a version that cannot be judged by; faults of files are findings.
    """
    contract = contract_for(sglang or known_versions()[-1])
    files = Subject(drafter, target)
    facts = Facts(
        manifest=files.manifest,
        vocab=files.vocab,
        draft=files.draft,
        target=files.target,
        contract=contract,
    )
    rules = [rule for rule in all_rules() if set(rule.needs()) <= STATIC_FACTS - {"speculation"}]
    findings = run_rules(rules, facts)
    return build_result(
        verdict=judge(findings, measured=any(f.status is Status.PASS for f in findings)),
        findings=findings,
        subject={
            "target": target or None,
            "drafter": drafter,
            "sglang": contract.name,
            "hashes": {"drafter": files.drafter_hash},
        },
    )
