"""How a defect is planted: edits of a copy of a healthy pair. None needs torch.

Files that stay as they are become hard links where the file system allows it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from eagle3_checks.reference.tensorfile import RawTensor, read_tensors, write_tensors

Part = Literal["drafter", "target"]
Tensors = dict[str, RawTensor]
Change = Callable[[Tensors], Tensors]
Edit = Callable[[Path], None]
"""Changes files of a copied pair, given its folder."""
Plant = Callable[[Path, Path], None]
"""`plant(pair, out)`: write the damaged copy of `pair` into `out`, which must not exist."""

WEIGHTS, CONFIG = "model.safetensors", "config.json"
GONE: Any = object()
"""The value of a key of config.json that is to be left out."""


def copy_pair(pair: Path, out: Path) -> None:
    """Copy a pair file by file, by hard links where the file system allows it.

    Raises FileExistsError where `out` exists.
    """
    shutil.copytree(pair, out, copy_function=_link)


def planting(*edits: Edit) -> Plant:
    """Return the planting that copies a pair and then makes these edits."""

    def plant(pair: Path, out: Path) -> None:
        copy_pair(pair, out)
        for edit in edits:
            edit(out)

    return plant


def config(part: Part = "drafter", **changes: Any) -> Edit:
    """Return the edit that changes keys of a config.json; `GONE` leaves one out."""

    def edit(pair: Path) -> None:
        file = pair / part / CONFIG
        settings = json.loads(file.read_text()) | changes
        rewrite(file, {k: v for k, v in settings.items() if v is not GONE})

    return edit


def tensors(change: Change, part: Part = "drafter") -> Edit:
    """Return the edit that changes the weights."""

    def edit(pair: Path) -> None:
        file = pair / part / WEIGHTS
        held, metadata = read_tensors(file)
        file.unlink()
        write_tensors(change(held), file, metadata)

    return edit


def one(name: str, change: Callable[[RawTensor], RawTensor]) -> Edit:
    """Return the edit that changes one tensor of the drafter."""
    return tensors(lambda held: held | {name: change(held[name])})


def added(**new: RawTensor) -> Edit:
    """Return the edit that adds tensors to the drafter; `__` in a name stands for a dot."""
    return tensors(lambda held: held | {n.replace("__", "."): t for n, t in new.items()})


def dropped(*names: str) -> Edit:
    """Return the edit that leaves tensors of the drafter out, those that begin with a name."""
    return tensors(lambda held: {n: t for n, t in held.items() if not n.startswith(names)})


def renamed(old: str, new: str) -> Edit:
    """Return the edit that gives tensors of the drafter another beginning of their names."""
    return tensors(
        lambda held: {
            new + name.removeprefix(old) if name.startswith(old) else name: tensor
            for name, tensor in held.items()
        }
    )


def swapped(first: str, second: str) -> Edit:
    """Return the edit that exchanges two tensors of the drafter, keeping their names."""
    return tensors(lambda held: held | {first: held[second], second: held[first]})


def rewrite(file: Path, content: Mapping[str, Any]) -> None:
    """Write JSON as a new file, since the old one may be a link to the healthy pair's."""
    file.unlink(missing_ok=True)
    file.write_text(json.dumps(content, indent=2) + "\n")


def _link(source: str, destination: str) -> None:
    try:
        os.link(Path(source).resolve(), destination)
    except OSError:
        shutil.copyfile(source, destination)
