"""The replay of loading that several rules judge."""

from __future__ import annotations

from collections.abc import Mapping

from eagle3_checks.checkpoint.files import shown
from eagle3_checks.contract.capture import captures_aux
from eagle3_checks.contract.replay import Fate, LoadPlan, ParameterPlan, State, replay
from eagle3_checks.contract.version import Contract, ContractError
from eagle3_checks.facts import DraftConfig, Manifest
from eagle3_checks.rules.base import Skip

FC = "model.fc."
DECODER = ("model.midlayer.", "model.layers.0.")


class _Latest:
    """The replay asked for last: a run's rules ask for one and the same, in turn."""

    def __init__(self) -> None:
        self._of: tuple[Manifest, DraftConfig, Contract] | None = None
        self._plan: LoadPlan | Skip = Skip("nothing was replayed")

    def plan(self, manifest: Manifest, draft: DraftConfig, contract: Contract) -> LoadPlan | Skip:
        asked = (manifest, draft, contract)
        known = self._of is not None and all(a is b for a, b in zip(asked, self._of, strict=True))
        if not known:
            self._plan = _replayed(*asked)
            self._of = asked
        return self._plan


_latest = _Latest()


def plan_of(manifest: Manifest, draft: DraftConfig, contract: Contract) -> LoadPlan | Skip:
    """Replay the loading, or say why it cannot be."""
    return _latest.plan(manifest, draft, contract)


def _replayed(manifest: Manifest, draft: DraftConfig, contract: Contract) -> LoadPlan | Skip:
    method = quantised(draft)
    if method:
        return Skip(
            f"the drafter is quantised ({method}); its parameters depend on the quantisation "
            "method and are not worked out from files"
        )
    try:
        return replay(manifest, draft, contract)
    except ContractError as error:
        return Skip(f"SGLang {contract.name} cannot build this drafter: {error}")


def quantised(draft: DraftConfig) -> str | None:
    """Return the method by which the drafter is quantised, or None.

    ModelOpt writes ``quant_algo: null`` for a drafter it left as it is, and SGLang takes it so.
    """
    stated = draft.quantization
    if not stated:
        return None
    inner = stated.get("quantization")
    table = inner if isinstance(inner, Mapping) else stated
    if "quant_algo" in table and table["quant_algo"] is None:
        return None
    named = table.get("quant_method") or table.get("quant_algo")
    return shown(named, 40) if isinstance(named, str) and named else "of an unnamed method"


def takes_aux(draft: DraftConfig, contract: Contract) -> bool:
    """Whether the target hands over aux states to be fused.

    Drafters with ``use_aux_hidden_state: false`` or null take the final hidden state, and have no
    fc.
    """
    return captures_aux(draft, contract)


def is_decoder(name: str) -> bool:
    """Whether a parameter belongs to the first decoder layer."""
    return name.startswith(DECODER)


def names_of(parameters: tuple[ParameterPlan, ...]) -> tuple[str, ...]:
    """Return the parameters' names."""
    return tuple(p.name for p in parameters)


def unused_tensors(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Mapping[str, str]:
    """Return the tensors whose values the served drafter never has, with the reason."""
    plan = plan_of(manifest, draft, contract)
    if isinstance(plan, Skip):
        return {}
    reasons = {t.name: "SGLang drops it" for t in plan.with_fate(Fate.DROPPED)}
    for parameter in plan.parameters:
        if parameter.state is State.TARGET:
            reasons |= dict.fromkeys(parameter.by, "SGLang replaces it by the target's")
    return reasons
