"""A plan carried out: a new folder, its weights the old ones to the bit."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle3_checks.checkpoint.config import CONFIG
from eagle3_checks.checkpoint.files import MAX_JSON_BYTES, plain_name, read_json
from eagle3_checks.checkpoint.header import METADATA, read_header
from eagle3_checks.checkpoint.manifest import INDEX, PICKLES
from eagle3_checks.facts import Manifest, TensorInfo
from eagle3_checks.repackage.copying import copy_file, copy_range
from eagle3_checks.repackage.plan import Plan

RECORD = "eagle3_checks"
"""Key in config.json and in each file's metadata that tells what was done."""
_ALIGNMENT = 8


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A file that was not copied."""

    name: str
    why: str


def write_checkpoint(
    source: Path, folder: Path, manifest: Manifest, plan: Plan, record: Mapping[str, Any]
) -> tuple[LeftOut, ...]:
    """Write the new checkpoint into an empty folder, and tell what was left out.

    Raises OSError and EOFError; the caller removes the folder then.
    """
    for file in manifest.files:
        _write_weights(source / file, folder / file, manifest, plan, record)
    if (source / INDEX).exists():
        _write_index(source, folder, manifest, plan)
    _write_json(folder / CONFIG, {**plan.config, RECORD: dict(record)})
    left_out: list[LeftOut] = []
    for path in sorted(source.iterdir()):
        if path.name in (*manifest.files, INDEX, CONFIG):
            continue
        why = _unwanted(path, source)
        if why:
            left_out.append(LeftOut(name=path.name, why=why))
        else:
            copy_file(path, folder / path.name)
    return tuple(left_out)


def new_size(manifest: Manifest) -> int:
    """Return about how many bytes the new weights take."""
    return sum(info.end - info.begin for info in manifest.tensors.values())


def _write_weights(
    source: Path, target: Path, manifest: Manifest, plan: Plan, record: Mapping[str, Any]
) -> None:
    parts = list(_parts(source.name, manifest, plan))
    metadata = dict(read_header(source, source.name).metadata)
    metadata[RECORD] = json.dumps(record, ensure_ascii=False)
    header: dict[str, Any] = {METADATA: metadata}
    end = 0
    for part in parts:
        begin, end = end, end + part.length
        header[part.name] = {
            "dtype": part.dtype,
            "shape": list(part.info.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with source.open("rb") as old, target.open("xb", buffering=0) as new:
        new.write(struct.pack("<Q", len(text)))
        new.write(text)
        for part in parts:
            if part.data is not None:
                new.write(part.data)
        for begin, count in _stretches(parts):
            copy_range(old.fileno(), new.fileno(), begin, count)


@dataclass(frozen=True, kw_only=True)
class _Part:
    info: TensorInfo
    name: str
    dtype: str
    data: bytes | None = None
    """New bytes; None where the old ones are copied."""

    @property
    def length(self) -> int:
        return self.info.end - self.info.begin if self.data is None else len(self.data)


def _parts(file: str, manifest: Manifest, plan: Plan) -> Iterator[_Part]:
    """Yield a file's tensors in the order of the new data.

    A d2t written anew comes first, where its eight-byte numbers are aligned and move no others out
    of line.
    """
    infos = sorted(
        (i for i in manifest.tensors.values() if i.file == file), key=lambda i: (i.begin, i.end)
    )
    anew = plan.d2t[0] if plan.d2t else None
    for info in sorted(infos, key=lambda i: i.name != anew):
        name = plan.renames.get(info.name, info.name)
        if plan.d2t and info.name == anew:
            values = plan.d2t[1]
            data = struct.pack(f"<{len(values)}q", *values)
            yield _Part(info=info, name=name, dtype="I64", data=data)
        else:
            yield _Part(info=info, name=name, dtype=info.dtype)


def _stretches(parts: list[_Part]) -> Iterator[tuple[int, int]]:
    """Yield offset and length of what is copied, neighbours together."""
    begin = end = 0
    for part in parts:
        if part.data is not None:
            continue
        if part.info.begin != end:
            if end > begin:
                yield begin, end - begin
            begin = part.info.begin
        end = part.info.end
    if end > begin:
        yield begin, end - begin


def _write_index(source: Path, folder: Path, manifest: Manifest, plan: Plan) -> None:
    index = dict(read_json(source / INDEX, INDEX, MAX_JSON_BYTES).value)
    index["weight_map"] = {
        plan.renames.get(name, name): file for name, file in index["weight_map"].items()
    }
    metadata = index.get("metadata")
    if plan.d2t and isinstance(metadata, dict) and type(metadata.get("total_size")) is int:
        info = manifest.tensors[plan.d2t[0]]
        grown = 8 * len(plan.d2t[1]) - (info.end - info.begin)
        index["metadata"] = {**metadata, "total_size": metadata["total_size"] + grown}
    _write_json(folder / INDEX, index)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    with path.open("x", encoding="utf-8") as stream:
        stream.write(text + "\n")


def _unwanted(path: Path, source: Path) -> str:
    """Say why a file of the old folder is not copied, or nothing."""
    if path.name.startswith("."):
        return "hidden"
    if path.name.endswith(".safetensors"):
        return "weights that are not loaded"
    if path.name.endswith(PICKLES):
        return "a pickle file is a program"
    if not plain_name(path.name) or not path.is_file():
        return "no plain file"
    if not path.resolve().is_relative_to(_home(source)):
        return "a link that leads out of the checkpoint"
    return ""


def _home(source: Path) -> Path:
    """Return where links may lead: the folder, or all of a repository in the hub's cache."""
    folder = source.resolve()
    return folder.parent.parent if folder.parent.name == "snapshots" else folder
