"""Planted defects: what turns a healthy pair into one that shows a known fault.

Each is a pure function from a pair's folder (`target/` and `drafter/`) to a damaged copy; none
needs torch. Files that stay as they are become hard links where the file system allows it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from eagle3_checks.reference.tensorfile import RawTensor, read_tensors, write_tensors

Tensors = dict[str, RawTensor]
WEIGHTS, CONFIG = "model.safetensors", "config.json"
KEPT_LAYERS = 5


@dataclass(frozen=True, kw_only=True)
class Defect:
    """A known fault, and how to give it to a healthy pair."""

    name: str
    title: str
    where: Literal["file", "flag", "target"]
    """What is changed: a file of the drafter, a launch flag, or the target."""
    codes: tuple[str, ...]
    """Rules that fail on its files and flags, as errors, before a server is started."""
    plant: Callable[[Path, Path], None]
    """`plant(pair, out)`: write the damaged copy of `pair` into `out`, which must not exist."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Launch flags to override, without the dashes."""
    healthy_from: str | None = None
    """The SGLang version from which on this is no defect but a look-alike that fires nothing."""


def copy_pair(pair: Path, out: Path) -> None:
    """Copy a pair file by file, by hard links where the file system allows it.

    Raises FileExistsError where `out` exists.
    """
    shutil.copytree(pair, out, copy_function=_link)


def _link(source: str, destination: str) -> None:
    try:
        os.link(Path(source).resolve(), destination)
    except OSError:
        shutil.copyfile(source, destination)


def _rewrite_tensors(folder: Path, change: Callable[[Tensors], Tensors]) -> None:
    """Replace the weights: a new file, since the old one may be a link to the healthy pair's."""
    file = folder / WEIGHTS
    tensors, metadata = read_tensors(file)
    file.unlink()
    write_tensors(change(tensors), file, metadata)


def _rewrite_config(folder: Path, **changes: Any) -> None:
    file = folder / CONFIG
    settings = json.loads(file.read_text()) | changes
    file.unlink()
    file.write_text(json.dumps(settings, indent=2) + "\n")


def _drafter_tensors(change: Callable[[Tensors], Tensors]) -> Callable[[Path, Path], None]:
    def plant(pair: Path, out: Path) -> None:
        copy_pair(pair, out)
        _rewrite_tensors(out / "drafter", change)

    return plant


def _rename(old: str, new: str) -> Callable[[Tensors], Tensors]:
    def change(tensors: Tensors) -> Tensors:
        return {
            new + name.removeprefix(old) if name.startswith(old) else name: tensor
            for name, tensor in tensors.items()
        }

    return change


def _square_fc(tensors: Tensors) -> Tensors:
    """Keep the columns of `fc` that read the first aux state: [H, K*H] -> [H, H]."""
    fc = tensors["fc.weight"]
    rows, columns = fc.shape
    row_bytes = len(fc.data) // rows
    kept = row_bytes // columns * rows
    data = b"".join(fc.data[row * row_bytes : row * row_bytes + kept] for row in range(rows))
    return tensors | {"fc.weight": RawTensor(fc.dtype, (rows, rows), data)}


def _zero_d2t(tensors: Tensors) -> Tensors:
    d2t = tensors["d2t"]
    return tensors | {"d2t": RawTensor(d2t.dtype, d2t.shape, bytes(len(d2t.data)))}


def _truncate_target(pair: Path, out: Path) -> None:
    copy_pair(pair, out)
    dropped = tuple(
        f"model.layers.{layer}."
        for layer in range(
            KEPT_LAYERS, json.loads((out / "target" / CONFIG).read_text())["num_hidden_layers"]
        )
    )
    _rewrite_tensors(
        out / "target",
        lambda tensors: {n: t for n, t in tensors.items() if not n.startswith(dropped)},
    )
    _rewrite_config(out / "target", num_hidden_layers=KEPT_LAYERS)


DEFECTS: Mapping[str, Defect] = {
    defect.name: defect
    for defect in (
        Defect(
            name="decoder-renamed",
            title="decoder layer under a name the loader does not know: dropped, left random",
            where="file",
            codes=("KEY001", "KEY002", "KEY003"),
            plant=_drafter_tensors(_rename("midlayer.", "decoder.")),
        ),
        Defect(
            name="layers-named",
            title="decoder layer as layers.0: healthy from SGLang 0.5.12 on, dropped before",
            where="file",
            codes=("KEY001", "KEY002", "KEY003"),
            plant=_drafter_tensors(_rename("midlayer.", "layers.0.")),
            healthy_from="0.5.12",
        ),
        Defect(
            name="fc-square",
            title="fc that fuses one aux state, [H, H], where SGLang builds [H, 3H]",
            where="file",
            codes=("FUS001",),
            plant=_drafter_tensors(_square_fc),
        ),
        Defect(
            name="d2t-zero",
            title="d2t all zero with a reduced draft vocabulary: only the first ids are proposed",
            where="file",
            codes=("VOC002",),
            plant=_drafter_tensors(_zero_d2t),
        ),
        Defect(
            name="algorithm-eagle",
            title="EAGLE-3 drafter served under EAGLE: one hidden state, fc skipped in silence",
            where="flag",
            codes=("CFG004",),
            plant=copy_pair,
            flags={"speculative-algorithm": "EAGLE"},
        ),
        Defect(
            name="target-5-layers",
            title="a target of five layers: the default capture ids are one layer, fc skipped",
            where="target",
            codes=("FUS005",),
            plant=_truncate_target,
        ),
    )
}
