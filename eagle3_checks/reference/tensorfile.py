"""Safetensors files as names and raw bytes: enough to damage one on purpose, without torch."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# The format wants its header aligned to 8 bytes.
_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class RawTensor:
    """One tensor: its dtype in safetensors' spelling (F16, I64, BOOL), its shape and its bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes = field(repr=False)


def read_tensors(file: Path) -> tuple[dict[str, RawTensor], dict[str, str]]:
    """Read a safetensors file; return its tensors in file order, and its metadata."""
    content = file.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8:begin])
    metadata = header.pop("__metadata__", {})
    ordered = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
    return {
        name: RawTensor(
            entry["dtype"],
            tuple(entry["shape"]),
            content[begin + entry["data_offsets"][0] : begin + entry["data_offsets"][1]],
        )
        for name, entry in ordered
    }, metadata


def write_tensors(
    tensors: Mapping[str, RawTensor], file: Path, metadata: Mapping[str, str]
) -> None:
    """Write a safetensors file, the tensors in the order given."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, tensor in tensors.items():
        header[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [end, end + len(tensor.data)],
        }
        end += len(tensor.data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with file.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            stream.write(tensor.data)
