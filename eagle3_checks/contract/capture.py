"""Which hidden states of the target reach the drafter.

A boundary is what Hugging Face calls ``hidden_states[i]``: the state that enters layer i of the
target, or leaves layer i - 1; boundary 0 is the embedding, boundary n (of n layers) leaves the last
layer. SGLang hands them over in ascending order, however the config orders its layer ids.

Source: ``set_eagle3_layers_to_capture`` and ``forward`` of each class in sglang/srt/models, and
sglang/srt/model_executor (``model_runner.py``, since 0.5.16 ``spec_aux_hidden_state.py``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from eagle3_checks.contract.version import Contract, ContractError, contract_for, known_versions
from eagle3_checks.facts import DraftConfig, TargetConfig

CANNOT = "none"
"""How the data writes that a class cannot be told what to capture."""
AUX_IDS = "eagle_aux_hidden_state_layer_ids"

Shift = Literal["next", "first-1", "max-depth", "fixed"]
Boundaries = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class CaptureRule:
    """How one target class turns layer ids into boundaries."""

    shift: Shift
    """``next``: id + 1. ``first-1``: id + 1 where the first id is 1, as they are otherwise.
    ``max-depth``: as they are where the largest id is the number of layers, id + 1 otherwise.
    ``fixed``: the default, whatever is stated."""
    default_shift: int = 0
    """Added to the default, 2, n // 2 and n - 3."""
    last: bool = False
    """Whether boundary n can be captured."""
    marks: bool = False
    """Whether layers are marked one by one; marks stay when other ids are set."""
    strict: bool = False
    """Whether an id beyond the last layer stops the server (IndexError)."""
    nothing: bool = False
    """Whether its forward pass never looks at what was set."""
    packed: bool = False
    """Whether fewer states than ids stop the server (``captured x of K``)."""

    def wanted(self, ids: Boundaries | None, depth: int) -> Boundaries:
        """Return the boundaries asked for, in the order of the ids; the default for None."""
        if ids is None or self.shift == "fixed":
            return tuple(i + self.default_shift for i in (2, depth // 2, depth - 3))
        return shifted(self.shift, ids, depth)

    def reached(self, wanted: Iterable[int], depth: int) -> Boundaries:
        """Return the boundaries that are captured, ascending."""
        if self.nothing:
            return ()
        inside = {i for i in wanted if 0 <= i < depth or (self.last and i == depth)}
        if self.marks and self.strict:
            # A list's negative index counts from its end, and the setter does not look.
            inside |= {i + depth for i in wanted if -depth <= i < 0}
        return tuple(sorted(inside))


def shifted(shift: Shift, ids: Boundaries, depth: int) -> Boundaries:
    """Return the boundaries that stated ids ask for."""
    stays = (shift == "first-1" and ids[:1] != (1,)) or (
        shift == "max-depth" and bool(ids) and max(ids) == depth
    )
    return ids if stays else tuple(i + 1 for i in ids)


@cache
def capture_rule(words: str) -> CaptureRule | None:
    """Read a rule as the data writes it, as in ``first-1 packed``; None where it cannot capture."""
    if words == CANNOT:
        return None
    first, *others = words.split()
    flags = {word: word in others for word in ("last", "marks", "strict", "nothing", "packed")}
    shifts: Mapping[str, Shift] = {s: s for s in get_args(Shift)}
    return CaptureRule(shift=shifts[first], default_shift=int("default+1" in others), **flags)


@dataclass(frozen=True, kw_only=True)
class Capture:
    """What the target hands over, resolved."""

    target_class: str
    """The architecture that SGLang serves the target under."""
    rule: CaptureRule
    depth: int
    """Layers of the target."""
    stated: Boundaries | None
    """The ids that SGLang goes by; None where it takes its default."""
    wanted: Boundaries
    """Boundaries asked for, in the order of the ids."""
    boundaries: Boundaries
    """Boundaries handed over, ascending: without CUDA graphs, or where these keep the ids."""
    unreached: Boundaries
    """Boundaries asked for that are never captured."""
    stops: str = ""
    """Why SGLang stops, where it does."""
    verify: Boundaries = ()
    """Boundaries handed over after verification in CUDA graphs."""
    prefill: Boundaries = ()
    """Boundaries handed over at the prompt where CUDA graphs are on."""

    @property
    def graphs_differ(self) -> bool:
        """Whether CUDA graphs change what is handed over."""
        return self.verify != self.boundaries or self.prefill != self.boundaries


@dataclass(frozen=True, kw_only=True)
class NoCapture:
    """Why nothing can be said of the capture, or why there is none."""

    reason: str
    target_class: str = ""
    known: bool = True
    """Whether SGLang serves the class by itself; another one may come from outside of it."""
    off: bool = False
    """Whether the drafter takes no aux states, by its config."""


def captures_aux(draft: DraftConfig, contract: Contract) -> bool:
    """Whether the target hands over aux states; drafters may say that they take none.

    SGLang takes ``eagle_config.use_aux_hidden_state`` as it is: null turns capturing off too.
    """
    eagle = draft.raw.get("eagle_config")
    if not contract.reads_use_aux or not isinstance(eagle, Mapping):
        return True
    return bool(eagle.get("use_aux_hidden_state", True))


def no_aux(draft: DraftConfig) -> str:
    """Say that a drafter takes no aux states, with what its config states."""
    stated = json.dumps(draft.raw["eagle_config"]["use_aux_hidden_state"])
    return f"eagle_config.use_aux_hidden_state is {stated}: this drafter takes no aux states"


def stated_ids(draft: DraftConfig, contract: Contract) -> Boundaries | None:
    """Return the ids that SGLang captures by, None for its default.

    ContractError where they are no whole numbers.
    """
    eagle = draft.raw.get("eagle_config")
    given = eagle.get(AUX_IDS) if isinstance(eagle, Mapping) else None
    if not contract.reads_aux_ids or given is None:
        return None
    if draft.aux_layer_ids is None:
        raise ContractError(f"eagle_config.{AUX_IDS} must be a list of whole numbers")
    return draft.aux_layer_ids


def resolve_capture(
    draft: DraftConfig, target: TargetConfig, contract: Contract
) -> Capture | NoCapture:
    """Work out what is captured; ContractError where a config does not say what it must."""
    if not captures_aux(draft, contract):
        return NoCapture(reason=no_aux(draft), off=True)
    served = next((name for name in target.architectures if name in contract.targets), None)
    if served is None:
        name = next(iter(target.architectures), "missing")
        reason = f"SGLang {contract.name} has no class of its own for {name}"
        return NoCapture(reason=reason, target_class=name, known=False)
    rule = capture_rule(contract.targets[served])
    if rule is None:
        reason = f"{served} of SGLang {contract.name} cannot be told which layers to capture"
        return NoCapture(reason=reason, target_class=served)
    if target.num_hidden_layers is None:
        raise ContractError("the target's config.json states no num_hidden_layers")
    ids = stated_ids(draft, contract)
    return _captured(served, rule, target.num_hidden_layers, ids, contract)


def _captured(
    served: str, rule: CaptureRule, depth: int, ids: Boundaries | None, contract: Contract
) -> Capture:
    wanted = rule.wanted(ids, depth)
    boundaries = rule.reached(wanted, depth)
    verify = prefill = boundaries
    if ids is not None and contract.graphs_lose_ids:
        verify = rule.reached(rule.wanted(None, depth), depth)
        prefill = tuple(sorted({*boundaries, *verify})) if rule.marks else boundaries
    return Capture(
        target_class=served,
        rule=rule,
        depth=depth,
        stated=ids,
        wanted=wanted,
        boundaries=boundaries,
        unreached=tuple(i for i in wanted if not _is_reached(i, boundaries, depth, rule)),
        stops=_stops(rule, wanted, boundaries, depth),
        verify=verify,
        prefill=prefill,
    )


def _is_reached(wanted: int, boundaries: Boundaries, depth: int, rule: CaptureRule) -> bool:
    if wanted < 0 and rule.marks and rule.strict:
        return wanted + depth in boundaries
    return wanted in boundaries


def _stops(rule: CaptureRule, wanted: Boundaries, boundaries: Boundaries, depth: int) -> str:
    if rule.strict and any(not -depth <= i < depth for i in wanted):
        return "it stops at the start (IndexError: list index out of range)"
    if rule.packed and boundaries and len(boundaries) != len(wanted):
        return (
            f"it stops at the first request (captured {len(boundaries)} of {len(wanted)} aux "
            "hidden states)"
        )
    return ""


def first_capturing(target_class: str) -> str | None:
    """Return the first known version in which a class captures what it is told to, or None."""
    for version in known_versions():
        rule = capture_rule(contract_for(version).targets.get(target_class, CANNOT))
        if rule is not None and not rule.nothing:
            return version
    return None
