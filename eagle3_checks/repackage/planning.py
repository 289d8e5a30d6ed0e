"""From facts to a plan, and what the rules would say of its outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from eagle3_checks.checkpoint.config import CONFIG, read_draft_config
from eagle3_checks.checkpoint.values import VocabMap
from eagle3_checks.contract.dims import served_class
from eagle3_checks.contract.replay import Fate, replay
from eagle3_checks.contract.version import LLAMA, Contract, ContractError
from eagle3_checks.facts import DraftConfig, Manifest
from eagle3_checks.repackage import config as steps
from eagle3_checks.repackage.aux_ids import moved_ids
from eagle3_checks.repackage.mapping import whole_d2t
from eagle3_checks.repackage.plan import Change, Plan, Refusal
from eagle3_checks.repackage.tensors import Renames, find_renames, renamed
from eagle3_checks.rules.base import Facts
from eagle3_checks.rules.hints import harmless
from eagle3_checks.rules.plan import quantised


def make_plan(facts: Facts, root: Path) -> Plan:
    """Work out what can be fixed with certainty; the files of the drafter are below `root`."""
    manifest, draft, contract = facts.manifest, facts.draft, facts.contract
    if manifest is None or draft is None or contract is None or not draft.raw:
        return Plan(config={}, refusals=(_unread("config.json"),))
    if manifest.problems or not manifest.tensors:
        return Plan(config=draft.raw, refusals=(_unread("the weights"),))
    raw, changes, refusals = steps.flattened(draft.raw)
    raw, named = steps.architecture(raw)
    now = draft_from(raw)
    outcomes: list[Change | Refusal] = []
    if served_class(now, contract) == LLAMA:
        outcomes += steps.target_width(raw, manifest)
        outcomes += steps.draft_vocabulary(raw, manifest)
    outcomes += steps.tie(raw, manifest)
    moved = list(moved_ids(raw, draft_from(raw), facts.target, contract))
    outcomes += moved
    if changes or any(isinstance(m, Change) for m in moved):
        steps.set_aside(raw)
    names = _names(manifest, draft_from(raw), contract)
    d2t, cast = whole_d2t(root, manifest)
    if named and (doubt := _misfit(renamed(manifest, names.names), draft_from(raw), contract)):
        outcomes.append(_doubtful(named, doubt))
        raw["architectures"], named = draft.raw.get("architectures"), None
    found = [*([named] if named else []), *outcomes, *names.changes, *([cast] if cast else [])]
    return Plan(
        config=MappingProxyType(raw),
        renames=names.names,
        d2t=d2t,
        changes=(*changes, *(c for c in found if isinstance(c, Change))),
        refusals=(*refusals, *names.refusals, *(r for r in found if isinstance(r, Refusal))),
    )


def preview(facts: Facts, plan: Plan) -> Facts:
    """Return the facts as they will be once a plan is carried out."""
    if facts.manifest is None or facts.draft is None:
        return facts
    vocab = facts.vocab
    if plan.d2t and vocab:
        name, values = plan.d2t
        others = tuple(p for p in vocab.problems if f"tensor {name} " not in p.detail)
        vocab = VocabMap(d2t=values, kept=vocab.kept, t2d_length=vocab.t2d_length, problems=others)
    manifest = facts.manifest
    if plan.d2t:
        name = plan.d2t[0]
        info = replace(manifest.tensors[name], dtype="I64")
        tensors = MappingProxyType({**manifest.tensors, name: info})
        manifest = replace(manifest, tensors=tensors)
    return replace(
        facts,
        manifest=renamed(manifest, plan.renames),
        draft=_like(draft_from(plan.config), facts.draft),
        vocab=vocab,
    )


def draft_from(raw: Mapping[str, Any]) -> DraftConfig:
    """Read a config that is not a file yet."""
    with TemporaryDirectory(prefix="eagle3-checks-") as folder:
        (Path(folder) / CONFIG).write_text(json.dumps(dict(raw)), encoding="utf-8")
        return read_draft_config(Path(folder))


def _like(new: DraftConfig, old: DraftConfig) -> DraftConfig:
    """Take over what other files than config.json tell."""
    return replace(new, source=old.source, quantization=new.quantization or old.quantization)


def _names(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Renames:
    if quantised(draft):
        return Renames(names={})
    try:
        return find_renames(manifest, draft, contract)
    except ContractError:
        return Renames(names={})


def _misfit(manifest: Manifest, draft: DraftConfig, contract: Contract) -> str:
    """Say why a drafter is not of the class its config now names, or nothing."""
    if quantised(draft):
        return "it is quantised, and its parameters are not worked out from files"
    try:
        plan = replay(manifest, draft, contract)
    except ContractError as error:
        return str(error)
    wrong = [
        t.name
        for t in plan.with_fate(Fate.DROPPED, Fate.FATAL, Fate.CUT, Fate.PADDED)
        if not harmless(t.name)
    ]
    if wrong:
        return f"{wrong[0]} has no place in it ({len(wrong)} such tensors)"
    empty = [p.name for p in plan.unfilled]
    return f"nothing in the file fills its {empty[0]}" if empty else ""


def _doubtful(change: Change, doubt: str) -> Refusal:
    return Refusal(
        what=change.what,
        why=f"{change.old} may stand for another model than {LLAMA}: {doubt}",
        instead="export the drafter in the layout of SGLang's class",
    )


def _unread(what: str) -> Refusal:
    return Refusal(
        what="all of it",
        why=f"{what} cannot be read",
        instead="see `eagle3-checks inspect`, and repair the files first",
    )
