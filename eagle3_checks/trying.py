"""The trials of a profile: its drafter replayed with one thing changed after the other."""

from __future__ import annotations

from collections.abc import Sequence

from eagle3_checks.checkpoint.subject import Subject
from eagle3_checks.contract.version import Contract
from eagle3_checks.facts import RequestSample, Trials
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.profile import Profile
from eagle3_checks.replaying import asked_of, plan_of, told, true_capture

PROMPTS = 12
"""Most prompts that every change is tried on."""


def try_profile(
    profile: Profile,
    files: Subject,
    contract: Contract,
    prompts: Sequence[Prompt],
    served: Sequence[RequestSample],
) -> Trials:
    """Replay some of these prompts with every change there is. Raises ReplayError."""
    with told() as oracle:
        from eagle3_checks.reference.trials import try_changes  # noqa: PLC0415 - torch is slow

        plan = plan_of(oracle, profile, files, true_capture(files, contract))
        return try_changes(plan, asked_of(oracle, prompts[:PROMPTS]), served)
