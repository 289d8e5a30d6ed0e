"""Static findings of a drafter's files, without a profile or a server."""

from __future__ import annotations

from eagle3_checks.checkpoint.subject import Subject
from eagle3_checks.contract.version import contract_for, known_versions
from eagle3_checks.report.result import Result, build_result
from eagle3_checks.rules.selection import Selection, run_selected
from eagle3_checks.rules.static import static_facts, static_rules
from eagle3_checks.verdict import Status, judge


def inspect(
    drafter: str,
    target: str = "",
    sglang: str = "",
    selection: Selection | None = None,
    *,
    values: bool = False,
) -> Result:
    """Judge a drafter (folder or hub id) for one SGLang version, the newest known by default.

    With `values`, the weights are read too; a hub id's are downloaded for it.
    Raises ContractError for a version that cannot be judged by; faults of files are findings.
    """
    contract = contract_for(sglang or known_versions()[-1])
    files = Subject(drafter, target, fetch=False)
    facts = static_facts(files, contract, values=values)
    rules = static_rules()
    findings = run_selected(rules, facts, selection or Selection())
    if files.folder and any(f.status is Status.FAIL for f in findings):
        from eagle3_checks.repackage.offers import offer  # noqa: PLC0415 - the healthy do without

        findings = offer(findings, facts, rules, files.folder)
    return build_result(
        verdict=judge(findings, measured=any(f.status is not Status.SKIP for f in findings)),
        findings=findings,
        subject={
            "target": target or None,
            "drafter": drafter,
            "sglang": contract.name,
            "hashes": {"drafter": files.drafter_hash},
        },
    )
