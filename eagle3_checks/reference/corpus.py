"""The text the tiny pair is trained on: the source of Python's standard library.

It is on every machine, and it is text of one kind. A file is held out or not by its name alone, so
that a prompt cut from a held-out file stays held out under another release of Python.
"""

from __future__ import annotations

import sysconfig
import zlib
from dataclasses import dataclass
from pathlib import Path

HELD_OUT_ONE_IN = 20
MIN_CHARACTERS = 400

# Tests repeat themselves, encodings and pydoc_data are tables, the rest is not the library's own.
_SKIPPED_FOLDERS = frozenset(
    {
        "__pycache__",
        "encodings",
        "idle_test",
        "pydoc_data",
        "site-packages",
        "dist-packages",
        "test",
        "tests",
    },
)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One module of the standard library: its path below the library's root, and its text."""

    path: str
    text: str

    @property
    def held_out(self) -> bool:
        """Whether this file is kept from training."""
        return is_held_out(self.path)


@dataclass(frozen=True, slots=True)
class Corpus:
    """The library, split for good into what is trained on and what is held out."""

    training: tuple[SourceFile, ...]
    held_out: tuple[SourceFile, ...]


def is_held_out(path: str) -> bool:
    """Say whether this file is held out: about one in twenty, by the CRC-32 of its name."""
    return zlib.crc32(path.encode()) % HELD_OUT_ONE_IN == 0


def library_root() -> Path:
    """Return the folder of the running interpreter's standard library."""
    return Path(sysconfig.get_paths()["stdlib"])


def read_corpus(root: Path | None = None) -> Corpus:
    """Read the modules below `root` (the interpreter's library), in the order of their names.

    Files that are not UTF-8 (the library has a few, on purpose) and stubs are left out.
    """
    root = root or library_root()
    files: list[SourceFile] = []
    for file in sorted(root.rglob("*.py"), key=lambda found: found.relative_to(root).as_posix()):
        relative = file.relative_to(root)
        if _SKIPPED_FOLDERS.intersection(relative.parts[:-1]):
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if len(text) >= MIN_CHARACTERS:
            files.append(SourceFile(relative.as_posix(), text))
    return Corpus(
        training=tuple(file for file in files if not file.held_out),
        held_out=tuple(file for file in files if file.held_out),
    )
