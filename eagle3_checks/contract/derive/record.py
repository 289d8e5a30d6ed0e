"""The data file: one entry per version, holding what changed against the one before it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from packaging.version import Version

from eagle3_checks.contract.derive.engine import engine
from eagle3_checks.contract.derive.loader import drafter_classes, llama_loader, mla_loader
from eagle3_checks.contract.derive.release import Release
from eagle3_checks.contract.derive.reviewed import check_reviewed
from eagle3_checks.contract.derive.source import Sources
from eagle3_checks.contract.derive.targets import target_rules
from eagle3_checks.contract.version import MERGED

Record = dict[str, Any]


def derive(release: Release) -> Record:
    """Return everything the contract knows of a release; what it does not state is refused."""
    sources = Sources(release)
    check_reviewed(sources)
    return {
        "sha256": release.sha256,
        "llama": llama_loader(sources),
        "mla": mla_loader(sources),
        "classes": drafter_classes(sources),
        **engine(sources),
        "targets": target_rules(sources),
    }


def entries(records: Mapping[str, Record]) -> list[Record]:
    """Write records as changes, oldest version first."""
    found: list[Record] = []
    before: Mapping[str, Any] = {}
    for version in sorted(records, key=Version):
        now = records[version]
        changes: Record = {"version": version}
        for key, value in now.items():
            if key in MERGED and before.get(key):
                if part := _changed(before[key], value):
                    changes[key] = part
            elif key not in before or before[key] != value:
                changes[key] = value
        found.append(changes)
        before = now
    return found


def _changed(before: Mapping[str, Any], now: Mapping[str, Any] | None) -> Record | None:
    """Return the entries that differ; those that are gone are None."""
    if now is None:
        return None
    gone = dict.fromkeys(key for key in before if key not in now)
    return {**{k: v for k, v in now.items() if before.get(k, ...) != v}, **gone}


def render(found: Iterable[Record]) -> str:
    """Return the text of the data file: one line per fact, so that a diff can be reviewed."""
    blocks = []
    for entry in found:
        lines: list[str] = []
        for key, value in entry.items():
            if key == "targets":
                names = [f"   {json.dumps(n)}: {json.dumps(r)}" for n, r in value.items()]
                lines.append('  "targets": {\n' + ",\n".join(names) + "\n  }")
            else:
                lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
        blocks.append(" {\n" + ",\n".join(lines) + "\n }")
    return "[\n" + ",\n".join(blocks) + "\n]\n"
