"""The kinds of faults, each with its rules, its public threads and, where none is planted, why."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("kinds.toml")
GROUPS = {
    "A": "which aux states are captured, and how they reach the drafter",
    "B": "the checkpoint against the loader",
    "C": "the draft vocabulary",
    "D": "RoPE and context",
    "E": "sizes, norms, layers",
    "F": "launch flags",
    "G": "dtype and quantisation",
    "H": "ranks",
    "I": "start-up",
    "J": "stability",
    "K": "prefix cache",
    "L": "losslessness",
    "M": "figures that mislead",
    "N": "born in training",
    "O": "low acceptance, or none to be gained",
}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of fault."""

    id: str
    group: str
    what: str
    threads: tuple[str, ...]
    """Public reports, as in ``sgl-project/sglang#21272``."""
    rules: tuple[str, ...]
    """Rules that tell of it."""
    out: str = ""
    """Why no defect stands for it; empty where one does."""


@cache
def kinds() -> dict[str, Kind]:
    """Return every kind by its id, in the order of the groups."""
    read = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {
        name: Kind(
            id=name,
            group=entry["group"],
            what=entry["what"],
            threads=tuple(entry["threads"]),
            rules=tuple(entry["rules"]),
            out=entry.get("out", ""),
        )
        for name, entry in read.items()
    }
