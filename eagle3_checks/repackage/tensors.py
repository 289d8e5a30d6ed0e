"""Names under which a SGLang version reads tensors that it drops."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from eagle3_checks.contract.replay import Fate, LoadPlan, TensorPlan, replay
from eagle3_checks.contract.version import Contract
from eagle3_checks.facts import DraftConfig, Manifest, TensorInfo
from eagle3_checks.repackage.plan import Change, Refusal
from eagle3_checks.rules.hints import LAYER, harmless

MAX_TENSORS = 5000
"""More than any drafter has; a file with more is not worth a search."""
_PART = re.compile(
    r"^(?:(?P<prefix>.+)\.)?(?P<rest>(?:self_attn|mlp|input_layernorm|hidden_norm"
    r"|post_attention_layernorm)\..+)$"
)
_LATER = re.compile(r"(?:^|\.)[1-9]\d*(?:\.|$)")
"""A layer number other than 0: such a layer is none that may be called the first."""
_MAX_PREFIX = 4


@dataclass(frozen=True, kw_only=True)
class Renames:
    """New names of tensors, and those that stay dropped because a name would be a guess."""

    names: Mapping[str, str]
    changes: tuple[Change, ...] = ()
    refusals: tuple[Refusal, ...] = ()


def find_renames(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Renames:
    """Find a name for each dropped tensor, whose parameter is free and takes its shape as it is.

    ContractError where the drafter cannot be built from its config.
    """
    none = Renames(names=MappingProxyType({}))
    if len(manifest.tensors) > MAX_TENSORS:
        return none
    plan = replay(manifest, draft, contract)
    lost = [t for t in plan.tensors if _lost(t)]
    offers = _offers(lost, plan, manifest, draft, contract)
    prefixes = {_prefix(old) for old, new in offers.items() if new.startswith(f"{LAYER}.")}
    if len(prefixes) > 1:
        return replace(none, refusals=(_two_layers(prefixes),))
    doubled = [new for new, count in Counter(offers.values()).items() if count > 1]
    if doubled:
        return replace(none, refusals=tuple(_doubled(offers, new) for new in doubled))
    return Renames(names=MappingProxyType(offers), changes=tuple(_changes(offers, contract)))


def renamed(manifest: Manifest, names: Mapping[str, str]) -> Manifest:
    """Return a manifest with new names, in the same order."""
    tensors = {
        names.get(name, name): replace(info, name=names.get(name, name))
        for name, info in manifest.tensors.items()
    }
    return replace(manifest, tensors=MappingProxyType(tensors))


def _lost(tensor: TensorPlan) -> bool:
    unplaced = tensor.fate in (Fate.DROPPED, Fate.FATAL) and tensor.parameter is None
    return unplaced and not harmless(tensor.name)


def _offers(
    lost: list[TensorPlan],
    plan: LoadPlan,
    manifest: Manifest,
    draft: DraftConfig,
    contract: Contract,
) -> dict[str, str]:
    """Map each lost tensor to the first of its candidates that is read and wanted."""
    candidates = {t.name: tuple(_candidates(t.name)) for t in lost}
    trial = _trial(manifest, candidates)
    if not trial.tensors:
        return {}
    places = {t.name: t for t in replay(trial, draft, contract).tensors}
    taken = {(t.parameter, t.shard) for t in plan.tensors if t.parameter is not None}
    maps = {Fate.TOKEN_MAP: plan.token_map is None, Fate.IGNORED: True}
    found: dict[str, str] = {}
    for old, names in candidates.items():
        for new in names:
            place = places.get(new)
            if place is None or new in manifest.tensors:
                continue
            fits = place.fate is Fate.LOADED and (place.parameter, place.shard) not in taken
            whole = (place.parameter, None) not in taken
            if (fits and whole) or maps.get(place.fate, False):
                found[old] = new
                break
    return found


def _trial(manifest: Manifest, candidates: Mapping[str, Iterable[str]]) -> Manifest:
    """Return a manifest of all candidates, each with the shape of its tensor.

    Of two tensors with one candidate only those of one shape can both be right; the last counts.
    """
    tensors: dict[str, TensorInfo] = {}
    for old, names in candidates.items():
        for new in names:
            tensors[new] = replace(manifest.tensors[old], name=new)
    return replace(manifest, tensors=MappingProxyType(tensors))


def _candidates(name: str) -> Iterator[str]:
    part = _PART.match(name)
    if part:
        if not _LATER.search(part["prefix"] or ""):
            yield f"{LAYER}.{part['rest']}"
        return
    pieces = name.split(".")
    for start in range(1, min(len(pieces), _MAX_PREFIX + 1)):
        if not _LATER.search(".".join(pieces[:start])):
            yield ".".join(pieces[start:])


def _prefix(name: str) -> str:
    part = _PART.match(name)
    return (part["prefix"] or "") if part else ""


def _two_layers(prefixes: set[str]) -> Refusal:
    names = " and ".join(f"{prefix or '(nothing)'}.*" for prefix in sorted(prefixes))
    return Refusal(
        what="names of the decoder layer's tensors",
        why=f"both {names} look like the one decoder layer that is read",
        instead=f"leave out those that do not belong, and name the others {LAYER}.*",
    )


def _doubled(offers: Mapping[str, str], new: str) -> Refusal:
    olds = sorted(old for old, name in offers.items() if name == new)
    return Refusal(
        what=f"the name {new}",
        why=f"{' and '.join(olds)} could both be it",
        instead="leave out the one that does not belong",
    )


def _changes(offers: Mapping[str, str], contract: Contract) -> Iterator[Change]:
    """Yield one change for each prefix that is replaced."""
    groups: dict[tuple[str, str], list[str]] = {}
    for old, new in offers.items():
        shared = len(_common_end(old, new))
        groups.setdefault((old[:-shared] or "(no prefix)", new[:-shared]), []).append(old)
    for (before, after), names in groups.items():
        count = f"{len(names)} tensor{'' if len(names) == 1 else 's'}"
        yield Change(
            what=f"{count}, as {names[0]}",
            old=f"{before}*",
            new=f"{after}*",
            why=f"SGLang {contract.name} has one free parameter of that name and shape for each",
        )


def _common_end(old: str, new: str) -> str:
    """Return the longest end, of whole pieces, that two names share."""
    pieces: list[str] = []
    for one, other in zip(reversed(old.split(".")), reversed(new.split(".")), strict=False):
        if one != other:
            break
        pieces.insert(0, one)
    return ".".join(pieces)
