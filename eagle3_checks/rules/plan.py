"""The replay of loading that several rules judge."""

from __future__ import annotations

from eagle3_checks.contract.parameters import replay_limit
from eagle3_checks.contract.replay import LoadPlan, ParameterPlan, replay
from eagle3_checks.contract.version import Contract, ContractError
from eagle3_checks.facts import DraftConfig, Manifest
from eagle3_checks.rules.base import Skip

FC = "model.fc."
DECODER = ("model.midlayer.", "model.layers.0.")


def plan_of(manifest: Manifest, draft: DraftConfig, contract: Contract) -> LoadPlan | Skip:
    """Replay the loading, or say why it cannot be."""
    limit = replay_limit(draft)
    if limit:
        return Skip(limit)
    try:
        return replay(manifest, draft, contract)
    except ContractError as error:
        return Skip(f"SGLang {contract.name} cannot build this drafter: {error}")


def takes_aux(draft: DraftConfig, contract: Contract) -> bool:
    """Whether the target hands over aux states to be fused.

    Drafters with ``use_aux_hidden_state: false`` take the final hidden state and have no fc.
    """
    return not (contract.reads_use_aux and draft.use_aux_hidden_state is False)


def is_decoder(name: str) -> bool:
    """Whether a parameter belongs to the first decoder layer."""
    return name.startswith(DECODER)


def names_of(parameters: tuple[ParameterPlan, ...]) -> tuple[str, ...]:
    """Return the parameters' names."""
    return tuple(p.name for p in parameters)
