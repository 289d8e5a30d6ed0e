"""What each SGLang version does with a drafter's files."""

from __future__ import annotations

from eagle3_checks.contract.capture import Capture, NoCapture, resolve_capture
from eagle3_checks.contract.metrics import MetaNames
from eagle3_checks.contract.version import Contract, ContractError, contract_for, known_versions

__all__ = [
    "Capture",
    "Contract",
    "ContractError",
    "MetaNames",
    "NoCapture",
    "contract_for",
    "known_versions",
    "resolve_capture",
]
