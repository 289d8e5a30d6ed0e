"""Reading of small files that may be anything: bounded, and faults told instead of raised."""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from eagle3_checks.facts import FileFault, FileProblem

MAX_JSON_BYTES = 100_000_000
"""As much as safetensors accepts for a header."""
MAX_CONFIG_BYTES = 10_000_000

_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""An escape that is text only as one of a pair; Python takes one alone too."""
_AGAIN = "copy or download {file} again, and compare its size with the source"


class CheckpointError(ValueError):
    """A file that could not be used; `problem` says which, why and what to do."""

    def __init__(self, problem: FileProblem) -> None:
        """Take the problem as the message too."""
        super().__init__(f"{problem.file}: {problem.detail}; {problem.fix}")
        self.problem = problem


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """A JSON value and the keys that one of its objects holds twice."""

    value: Any
    duplicates: tuple[str, ...] = ()


def shown(text: str, limit: int = 120) -> str:
    """Return a name from a file in a form that is safe to print: no control characters, short."""
    short = text if len(text) <= limit else f"{text[:limit]}…"
    return short if short.isprintable() else ascii(short)


def problem(fault: FileFault, file: str, detail: str, fix: str = "") -> FileProblem:
    """Build a problem; the usual remedy for a damaged file where `fix` is empty."""
    name = shown(file)
    return FileProblem(fault=fault, file=name, detail=detail, fix=fix or _AGAIN.format(file=name))


def fail(fault: FileFault, file: str, detail: str, fix: str = "") -> NoReturn:
    """Raise CheckpointError."""
    raise CheckpointError(problem(fault, file, detail, fix))


def os_problem(error: OSError, file: str) -> FileProblem:
    """Turn what the operating system says into a problem."""
    reason = error.strerror or type(error).__name__
    if isinstance(error, FileNotFoundError):
        return problem(FileFault.MISSING, file, "there is no such file")
    return problem(
        FileFault.UNREADABLE,
        file,
        f"it cannot be read: {reason}",
        "check the path, its permissions and its links",
    )


def check_folder(folder: Path) -> FileProblem | None:
    """Say why this is no folder to read a checkpoint from, or None."""
    name = str(folder)
    fix = "give the folder that holds config.json and model.safetensors"
    try:
        mode = folder.stat().st_mode
    except FileNotFoundError:
        return problem(FileFault.MISSING, name, "there is no such folder", fix)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return problem(FileFault.UNREADABLE, name, f"it cannot be opened: {reason}", fix)
    if not stat.S_ISDIR(mode):
        return problem(FileFault.UNREADABLE, name, "it is a file, not a folder", fix)
    return None


def file_size(path: Path, file: str) -> int:
    """Return the size in bytes of a regular file; CheckpointError for all else.

    Pipes and devices are refused before they are opened: reading one may never end.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise CheckpointError(os_problem(error, file)) from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
        fail(FileFault.UNREADABLE, file, f"it is {kind}", "put the real file in its place")
    return status.st_size


def read_range(path: Path, file: str, begin: int, count: int) -> bytes:
    """Return `count` bytes from offset `begin`; CheckpointError where the file has fewer."""
    file_size(path, file)
    try:
        with path.open("rb") as stream:
            stream.seek(begin)
            data = stream.read(count)
    except OSError as error:
        raise CheckpointError(os_problem(error, file)) from error
    except (MemoryError, OverflowError):
        fail(FileFault.BAD_HEADER, file, f"{count} bytes from offset {begin} cannot be read")
    if len(data) != count:
        fail(
            FileFault.TRUNCATED,
            file,
            f"it ends at byte {begin + len(data)}; byte {begin + count} is needed",
        )
    return data


def read_json(path: Path, file: str, limit: int = MAX_CONFIG_BYTES) -> Parsed:
    """Read a JSON file of at most `limit` bytes; CheckpointError says why it cannot be used."""
    size = file_size(path, file)
    if size > limit:
        fail(
            FileFault.UNREADABLE,
            file,
            f"it is {size} bytes long; at most {limit} are expected",
            "check that it is the file it is called",
        )
    data = read_range(path, file, 0, size)
    check_lfs(data, file)
    if not data.strip():
        fail(FileFault.TRUNCATED, file, "it is empty")
    return parse_json(data, file)


def check_lfs(data: bytes, file: str) -> None:
    """Raise CheckpointError where the bytes are a Git LFS pointer instead of the file."""
    if data.startswith(_LFS_POINTER):
        fail(
            FileFault.UNREADABLE,
            file,
            "it is a Git LFS pointer, not the file itself",
            "run `git lfs pull` in the checkpoint's folder, or download the file from the hub",
        )


def parse_json(data: bytes, file: str, *, strict: bool = False) -> Parsed:
    """Parse JSON text; `strict` refuses NaN and Infinity, which JSON does not have.

    CheckpointError where it is none, in UTF-8, of sensible depth and size.
    """
    duplicates: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            counts = Counter(key for key, _ in pairs)
            duplicates.extend(key for key, count in counts.items() if count > 1)
        return made

    def refuse(text: str) -> NoReturn:
        raise ValueError(f"{text} is not JSON")

    constants = refuse if strict else float
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=constants)
    except UnicodeDecodeError as error:
        detail = f"it is not UTF-8 text (byte {error.start})"
    except json.JSONDecodeError as error:
        detail = f"it is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})"
    except RecursionError:
        detail = "it is nested too deeply"
    except (ValueError, MemoryError) as error:
        detail = f"it is not usable JSON: {shown(str(error)) or type(error).__name__}"
    else:
        _refuse_half_pairs(value, data, file)
        return Parsed(value=value, duplicates=tuple(duplicates))
    fail(FileFault.NOT_JSON, file, detail)


def _refuse_half_pairs(value: Any, data: bytes, file: str) -> None:
    """Refuse texts that no file name, terminal or other JSON parser takes."""
    if not _SURROGATE.search(data):
        return
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (UnicodeEncodeError, RecursionError):
        detail = "it holds half of a surrogate pair (\\ud800 to \\udfff), which is no text"
        fail(FileFault.NOT_JSON, file, detail)


def plain_name(name: str) -> bool:
    """Whether this is the name of a file beside the index: no folders, nothing above."""
    return (
        name not in ("", ".", "..")
        and "/" not in name
        and "\\" not in name
        and "\0" not in name
        and os.path.basename(name) == name  # noqa: PTH119 - a name, not yet a path
    )
