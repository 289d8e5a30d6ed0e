"""The directions of DESIGN: who may import whom. Arrows point down and never back."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "eagle3_checks"
STANDALONE = "inside"

# Each room and the rooms below it that it may import.
BELOW: dict[str, set[str]] = {
    "facts": set(),
    "verdict": {"facts"},
    "shipped": set(),
    "environments": set(),
    "version": set(),
    "profile": set(),
    "limits": {"profile"},
    "settings": {"limits", "profile", "shipped"},
    "checkpoint": {"facts"},
    "contract": {"facts"},
    "rules": {"contract", "checkpoint", "facts", "profile", "verdict"},
    "repackage": {"contract", "checkpoint", "rules", "facts", "verdict"},
    "diagnosis": {"facts", "verdict"},
    "server": {"contract", "facts", "profile", "settings", "shipped"},
    "measure": {"contract", "facts", "profile", "server", "shipped", "verdict"},
    "reference": {"checkpoint", "contract", "facts", "profile", "shipped"},
}
LOW = set(BELOW)
BELOW |= {
    "replaying": LOW,
    "trying": LOW | {"replaying"},
    "observing": LOW,
    "measuring": LOW | {"observing", "replaying", "trying"},
    "gate": LOW | {"replaying", "trying", "measuring"},
    "inspection": LOW | {"report"},
    "report": LOW | {"gate"},
    "bisect": LOW | {"measuring", "gate", "identity", "report"},
    "compare": {"report", "verdict"},
    "identity": LOW,
    "sweep": LOW | {"gate", "identity", "report"},
    "doctor": LOW,
    "offline": LOW | {"replaying", "report"},
    "arguments": set(),
    "session": LOW | {"gate", "report"},
    "plugin": LOW | {"gate", "report", "session"},
    "selftest": LOW | {"gate", "report"},
    "cli": LOW
    | {"gate", "report", "session", "inspection", "doctor", "offline", "arguments"}
    | {"bisect", "compare", "sweep", "selftest"},
    "__main__": {"cli"},
    "__init__": set(),
}
HEAVY = {"torch", "sglang", "transformers", "numpy"}


def rooms() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room != STANDALONE:
            yield room, path


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(("room", "path"), list(rooms()), ids=lambda v: getattr(v, "stem", v))
def test_arrows_point_down(room: str, path: Path) -> None:
    used = {
        name.split(".")[1]
        for name in imports(path)
        if name.startswith("eagle3_checks.") and name.split(".")[1] != room
    }
    assert used <= BELOW[room], f"{path.name} may not import {sorted(used - BELOW[room])}"


@pytest.mark.parametrize(("room", "path"), list(rooms()), ids=lambda v: getattr(v, "stem", v))
def test_only_the_reference_imports_torch(room: str, path: Path) -> None:
    heavy = {name.split(".")[0] for name in imports(path)} & HEAVY
    assert not heavy or room == "reference"


@pytest.mark.parametrize("path", sorted((PACKAGE / STANDALONE).rglob("*.py")), ids=lambda p: p.stem)
def test_what_runs_inside_stands_alone(path: Path) -> None:
    assert not any(name.startswith("eagle3_checks") for name in imports(path))


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem)
def test_modules_stay_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 350


def test_every_room_is_known() -> None:
    assert {room for room, _ in rooms()} == set(BELOW)
