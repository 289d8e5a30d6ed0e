"""Where the files that travel with the suite are: in the wheel, or in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def shipped(*parts: str) -> Path:
    """Path of a shipped file or folder (``fixtures/…``, ``tests_gpu``); it may not exist."""
    installed = _PACKAGE / "_shipped"
    return (installed if installed.is_dir() else _PACKAGE.parent).joinpath(*parts)


def names(folder: str, suffix: str) -> tuple[str, ...]:
    """Return the sorted stems of the shipped files of that suffix in a folder of ``fixtures``."""
    return tuple(sorted(p.stem for p in shipped("fixtures", folder).glob(f"*{suffix}")))
