"""Identity of a checkpoint, for reports and baselines."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from pathlib import Path

from eagle3_checks.checkpoint.config import CONFIG
from eagle3_checks.checkpoint.files import CheckpointError, file_size
from eagle3_checks.checkpoint.header import LENGTH_BYTES
from eagle3_checks.checkpoint.manifest import read_manifest

FULL_BELOW = 64 << 20
_CHUNK = 1 << 20


def digest(folder: Path, full_below: int = FULL_BELOW) -> str | None:
    """Return ``sha256-content:…`` or ``sha256-headers:…``, or None where a file cannot be read.

    Below `full_below` bytes of weights in all, it covers config.json and every byte of them;
    above, config.json, the headers and the files' sizes, which a change of values does not move.
    """
    names = [CONFIG, *read_manifest(folder).files]
    try:
        sizes = {name: file_size(folder / name, name) for name in names}
        full = sum(sizes.values()) < full_below
        total = hashlib.sha256()
        for name in sorted(names):
            whole = full or name == CONFIG
            part = _hash(folder / name, sizes[name] if whole else _header_end(folder / name))
            # Lengths before names keep two different lists of files from hashing alike.
            total.update(struct.pack("<QQ", len(name.encode()), sizes[name]))
            total.update(name.encode())
            total.update(part)
    except (CheckpointError, OSError):
        return None
    return f"sha256-{'content' if full else 'headers'}:{total.hexdigest()}"


def _hash(path: Path, count: int) -> bytes:
    hasher = hashlib.sha256()
    for chunk in _chunks(path, count):
        hasher.update(chunk)
    return hasher.digest()


def _chunks(path: Path, count: int) -> Iterable[bytes]:
    with path.open("rb") as stream:
        while count > 0 and (chunk := stream.read(min(count, _CHUNK))):
            count -= len(chunk)
            yield chunk


def _header_end(path: Path) -> int:
    """Return how many bytes the file's header takes; the whole file where it has none."""
    with path.open("rb") as stream:
        start = stream.read(LENGTH_BYTES)
    return LENGTH_BYTES + int.from_bytes(start, "little")
