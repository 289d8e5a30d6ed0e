"""What FUS005 to FUS011 share: the capture, resolved, in words."""

from __future__ import annotations

from collections.abc import Sequence

from eagle3_checks.contract.capture import Capture, resolve_capture
from eagle3_checks.contract.version import Contract, ContractError, contract_for, known_versions
from eagle3_checks.facts import DraftConfig, TargetConfig
from eagle3_checks.rules.base import Skip
from eagle3_checks.rules.text import ids as all_ids

KEY = "eagle_config.eagle_aux_hidden_state_layer_ids"
FILES = ("SRC002", "SRC003", "CFG001", "CFG003")
"""Prerequisites of rules about the capture."""

_SHOWN = 16
"""Ids that a message shows; nothing sensible has more."""


def ids(values: Sequence[int]) -> str:
    """Return ids as in ``2, 30, 58``, the first few of many."""
    more = len(values) - _SHOWN
    return all_ids(values[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def resolved(draft: DraftConfig, target: TargetConfig, contract: Contract) -> Capture | Skip:
    """Resolve the capture, or say why a rule about it does not apply."""
    try:
        found = resolve_capture(draft, target, contract)
    except ContractError as error:
        return Skip(str(error))
    if isinstance(found, Capture):
        return found if not found.rule.nothing else Skip("nothing is captured (FUS006)")
    return Skip(found.reason if found.off else f"{found.reason} (FUS006)")


def source(capture: Capture) -> str:
    """Say where the layers come from, with the ids as they are written there."""
    if capture.stated is None:
        return f"default for {capture.depth} layers: {ids(capture.wanted)}"
    return f"aux layer ids: {ids(capture.stated)}"


def upgrade(wanted: dict[str, bool]) -> str:
    """Name the first version that has what is wanted, and all later ones have too."""
    since = ""
    for version in reversed(known_versions()):
        contract = contract_for(version)
        if any(getattr(contract, key) != value for key, value in wanted.items()):
            break
        since = version
    return f"Serve with SGLang {since} or later" if since else ""
