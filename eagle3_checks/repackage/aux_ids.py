"""Aux layer ids at the top level, where SGLang's capture does not look, into eagle_config.

The same ids mean two things. Speculators (and vLLM) number the states that enter a layer; most
other trainers number the layers that the states leave. SGLang adds one or does not, by the target's
class. So a number is only moved where what it means and what SGLang makes of it are both known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from eagle3_checks.checkpoint.config import AUX_IDS
from eagle3_checks.contract.capture import Boundaries, Capture, resolve_capture
from eagle3_checks.contract.version import Contract, ContractError
from eagle3_checks.facts import DraftConfig, TargetConfig
from eagle3_checks.repackage.plan import Change, Refusal

EAGLE = "eagle_config"
SPECULATORS = "speculators_model_type"
_WHAT = f"config.json: {AUX_IDS}"


def moved_ids(
    raw: dict[str, Any], draft: DraftConfig, target: TargetConfig | None, contract: Contract
) -> Iterator[Change | Refusal]:
    """Move the ids in the convention that SGLang reads, or say why not; changes `raw`.

    `draft` is what `raw` reads as.
    """
    ids = draft.aux_layer_ids_top_level
    stated = raw.get(EAGLE)
    inside = stated if isinstance(stated, Mapping) else {}
    if not ids or inside.get(AUX_IDS) is not None or not contract.reads_aux_ids:
        return
    if target is None or target.problems:
        yield _refusal(
            f"{list(ids)} at the top level are passed over, and what SGLang captures in their "
            "place depends on the target's class",
            "give the target with --target",
        )
        return
    known = SPECULATORS in raw or "speculators_config" in raw
    meanings = [ids] if known else [ids, tuple(i + 1 for i in ids)]
    if _captured(draft, target, contract) in [tuple(sorted(meant)) for meant in meanings]:
        return  # The default is what they mean, or may mean: nothing is wrong.
    if not known:
        yield _refusal(
            f"{list(ids)} at the top level may number the states that enter a layer or those that "
            "leave it",
            "write into eagle_config the ids that the training captured, as SGLang counts them",
        )
        return
    found = _equivalent(ids, draft, target, contract)
    if isinstance(found, str):
        yield _refusal(found, "serve with a version and a target that can capture these layers")
        return
    del raw[AUX_IDS]
    raw[EAGLE] = {**inside, AUX_IDS: list(found)}
    yield Change(
        what=_WHAT,
        old=f"{list(ids)} at the top level",
        new=f"{list(found)} in {EAGLE}",
        why=f"speculators numbers the states that enter a layer; {_served(target, contract)} then "
        f"captures {list(ids)}",
    )


def _captured(draft: DraftConfig, target: TargetConfig, contract: Contract) -> Boundaries | None:
    try:
        seen = resolve_capture(draft, target, contract)
    except ContractError:
        return None
    return seen.boundaries if isinstance(seen, Capture) else None


def _equivalent(
    ids: Boundaries, draft: DraftConfig, target: TargetConfig, contract: Contract
) -> Boundaries | str:
    """Return ids that make SGLang capture the boundaries `ids`, or why there are none."""
    candidates = (tuple(i - 1 for i in ids), ids)
    reason = ""
    for candidate in candidates:
        try:
            seen = resolve_capture(_with_ids(draft, candidate), target, contract)
        except ContractError as error:
            return str(error)
        if not isinstance(seen, Capture):
            return seen.reason
        if seen.boundaries == tuple(sorted(ids)) and not seen.stops:
            if not seen.graphs_differ:
                return candidate
            reason = f"SGLang {contract.name} loses stated ids in CUDA graphs"
    return reason or (
        f"no ids make {_served(target, contract)} capture the states that enter {list(ids)}"
    )


def _with_ids(draft: DraftConfig, ids: Boundaries) -> DraftConfig:
    stated = draft.raw.get(EAGLE)
    eagle = {**(stated if isinstance(stated, Mapping) else {}), AUX_IDS: list(ids)}
    raw = MappingProxyType({**draft.raw, EAGLE: eagle})
    return replace(draft, raw=raw, aux_layer_ids=ids)


def _served(target: TargetConfig, contract: Contract) -> str:
    name = next((n for n in target.architectures if n in contract.targets), "the target")
    return f"{name} of SGLang {contract.name}"


def _refusal(why: str, instead: str) -> Refusal:
    return Refusal(what=_WHAT, why=why, instead=instead)
