"""What each SGLang version does with a drafter's files."""

from __future__ import annotations

from eagle3_checks.contract.metrics import MetaNames
from eagle3_checks.contract.version import Contract, ContractError, contract_for, known_versions

__all__ = ["Contract", "ContractError", "MetaNames", "contract_for", "known_versions"]
