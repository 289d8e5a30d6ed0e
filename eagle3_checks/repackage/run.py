"""One repackaging, from folder to folder, and the findings before and after."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eagle3_checks.checkpoint.hub import local_folder
from eagle3_checks.checkpoint.subject import Subject
from eagle3_checks.contract.version import contract_for, known_versions
from eagle3_checks.repackage.plan import Change, Plan, Refusal
from eagle3_checks.repackage.planning import make_plan
from eagle3_checks.repackage.writing import LeftOut, new_size, write_checkpoint
from eagle3_checks.rules.base import run_rules
from eagle3_checks.rules.static import static_facts, static_rules
from eagle3_checks.verdict import Finding

SPARE = 64 << 20
"""Bytes a disk must have beyond the weights."""


class RepackageError(ValueError):
    """Nothing can be written there, or from there; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a repackaging did."""

    sglang: str
    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    before: tuple[Finding, ...]
    after: tuple[Finding, ...] = ()
    """Empty where nothing was written."""
    left_out: tuple[LeftOut, ...] = ()
    written: bool = False

    @property
    def good(self) -> bool:
        """Whether there is a new checkpoint without errors."""
        return self.written and not any(f.is_error for f in self.after)


def repackage(
    source: str, out: Path, *, target: str = "", sglang: str = "", tool_version: str = ""
) -> Outcome:
    """Write the drafter `source` (folder or hub id) to `out` as a SGLang version reads it.

    Nothing is written where a fix would be a guess, or where there is none for the errors found.
    Raises RepackageError, ContractError, CheckpointError and OSError; then, too, nothing is left
    behind.
    """
    _check_place(out)
    contract = contract_for(sglang or known_versions()[-1])
    folder = local_folder(source, weights=True)
    _check_apart(folder, out)
    files = Subject(str(folder), target, fetch=False)
    facts = static_facts(files, contract)
    before = run_rules(static_rules(), facts)
    plan = make_plan(facts, folder)
    outcome = Outcome(
        sglang=contract.name, changes=plan.changes, refusals=plan.refusals, before=before
    )
    stuck = not plan.changes and any(f.is_error for f in before)
    if plan.refusals or stuck:
        return outcome
    record = {
        "tool": f"eagle3-checks {tool_version}".strip(),
        "sglang": contract.version,
        "source": files.drafter_hash,
        "changes": [asdict(change) for change in plan.changes],
    }
    left_out = _write(folder, out, files, plan, record)
    new = Subject(str(out), target, fetch=False)
    after = run_rules(static_rules(), static_facts(new, contract))
    return Outcome(
        sglang=contract.name,
        changes=plan.changes,
        refusals=(),
        before=before,
        after=after,
        left_out=left_out,
        written=True,
    )


def _write(
    folder: Path, out: Path, files: Subject, plan: Plan, record: Mapping[str, Any]
) -> tuple[LeftOut, ...]:
    """Write beside, then rename: `out` is whole or not there."""
    needed = new_size(files.manifest) + SPARE
    free = shutil.disk_usage(out.absolute().parent).free
    if free < needed:
        raise RepackageError(
            f"{out}: {needed / 1e9:.1f} GB are needed there, and {free / 1e9:.1f} GB are free"
        )
    beside = out.absolute().with_name(f".{out.name}.{os.getpid()}.part")
    beside.mkdir()
    try:
        left_out = write_checkpoint(folder, beside, files.manifest, plan, record)
        if os.path.lexists(out):
            raise RepackageError(f"{out} appeared meanwhile; give a name that is free")
        beside.rename(out)
    except EOFError as error:
        raise RepackageError(
            f"{folder}: a file became shorter while it was read: {error}"
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return left_out


def _check_place(out: Path) -> None:
    if os.path.lexists(out):
        raise RepackageError(f"{out} is there already; give a name that is free")
    if not out.absolute().parent.is_dir():
        raise RepackageError(f"{out}: there is no folder {out.absolute().parent} to put it in")


def _check_apart(folder: Path, out: Path) -> None:
    """Refuse to write into the checkpoint that is read; CheckpointError for no folder at all."""
    if not folder.is_dir():
        raise RepackageError(f"{folder}: there is no such folder, and it is no hub id")
    if out.resolve().is_relative_to(folder.resolve()):
        raise RepackageError(f"{out} lies in {folder}, which is read; give a name outside it")
