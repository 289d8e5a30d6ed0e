"""Which findings a repackaging removes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from eagle3_checks.repackage.planning import make_plan, preview
from eagle3_checks.rules.base import Facts, Rule, run_rules
from eagle3_checks.verdict import Finding, Status

FIXES: Mapping[str, str] = {
    "CFG001": "writes the architecture, where every tensor has its place in that class",
    "CFG003": "writes the sizes that tensors prove: target_hidden_size and draft_vocab_size",
    "CFG005": "moves speculators' nested sizes to the top",
    "CFG006": "takes model_type from speculators' nested config",
    "FUS008": "moves speculators' layer ids, counted as the target's class counts them",
    "KEY001": "renames tensors, where each has one free parameter of its shape",
    "KEY002": "renames the tensors that fill them, where they are there under another name",
    "KEY003": "renames the decoder layer's tensors to midlayer.*",
    "VOC003": "writes d2t as int64, where no value was rounded",
    "VOC004": "unties a head that has fewer rows than the embedding",
}
"""What `repackage` does about a rule's findings, for the rules' pages."""


def offer(
    findings: Sequence[Finding], facts: Facts, rules: Sequence[type[Rule]], root: Path
) -> tuple[Finding, ...]:
    """Say in the fix of each finding that a repackaging would remove that it would.

    The plan is made and judged, in memory, so that nothing is promised that is not kept.
    """
    if not any(f.status is Status.FAIL for f in findings):
        return tuple(findings)
    plan = make_plan(facts, root)
    if plan.refusals or not plan.changes or facts.contract is None:
        return tuple(findings)
    after = run_rules(rules, preview(facts, plan))
    left = {(f.code, f.message) for f in after if f.status is Status.FAIL}
    answered = {f.code for f in after if f.status is not Status.SKIP}
    command = f"`eagle3-checks repackage IN OUT --sglang {facts.contract.version}` does this."
    return tuple(
        replace(f, fix=f"{f.fix} {command}".strip())
        if f.status is Status.FAIL and f.code in answered and (f.code, f.message) not in left
        else f
        for f in findings
    )
