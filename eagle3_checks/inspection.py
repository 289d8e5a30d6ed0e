"""Static findings of a drafter's files, without a profile or a server."""

from __future__ import annotations

from pathlib import Path

from eagle3_checks.checkpoint.config import read_draft_config, read_target_config
from eagle3_checks.checkpoint.digest import digest
from eagle3_checks.checkpoint.manifest import read_manifest
from eagle3_checks.contract.version import contract_for, known_versions
from eagle3_checks.report.result import Result, build_result
from eagle3_checks.rules.base import STATIC_FACTS, Facts, run_rules
from eagle3_checks.rules.registry import all_rules
from eagle3_checks.verdict import Status, judge


def inspect(drafter: str, target: str = "", sglang: str = "") -> Result:
    """Judge a drafter's folder for one SGLang version (the newest known where none is given).

    Raises ContractError for a version that cannot be judged by; faults of files are findings.
    """
    contract = contract_for(sglang or known_versions()[-1])
    folder = Path(drafter).expanduser()
    facts = Facts(
        manifest=read_manifest(folder),
        draft=read_draft_config(folder),
        target=read_target_config(Path(target).expanduser()) if target else None,
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
            "hashes": {"drafter": digest(folder)},
        },
    )
