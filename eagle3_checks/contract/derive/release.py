"""The source files of one SGLang release: a wheel, or the installed distribution."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath

from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename
from packaging.version import Version

PINNED = ("sgl-kernel", "sglang-kernel", "torch", "transformers")
"""Requirements whose pins the contract keeps."""
_BASE_EXTRAS = ("", "srt", "runtime-common")
"""Extras that every server needed before they became plain requirements (0.5.3)."""

_WHEEL = ("--platform", "manylinux_2_34_x86_64", "--python-version", "3.11", "--abi", "cp311")


class RefusedError(Exception):
    """A fact that the source does not state with certainty; the message says where."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """The Python files of one version, by their path in the wheel."""

    version: str
    sha256: str | None
    """Of the wheel; None for what is installed."""
    requires: tuple[str, ...]
    paths: frozenset[str]
    read: Callable[[str], bytes]

    def text(self, path: str) -> str:
        """Return a file's text; RefusedError where the version has no such file."""
        if path not in self.paths:
            raise RefusedError(f"there is no {path}")
        return self.read(path).decode("utf-8-sig")

    def folder(self, path: str) -> tuple[str, ...]:
        """Return the Python files directly in a folder, sorted."""
        return tuple(
            sorted(
                p for p in self.paths if p.endswith(".py") and str(PurePosixPath(p).parent) == path
            )
        )

    def below(self, path: str) -> tuple[str, ...]:
        """Return all Python files below a folder, sorted."""
        return tuple(
            sorted(p for p in self.paths if p.endswith(".py") and p.startswith(f"{path}/"))
        )

    def pins(self) -> dict[str, str]:
        """Return the exact versions required of `PINNED`; RefusedError where two are."""
        found: dict[str, str] = {}
        for text in self.requires:
            wanted = Requirement(text)
            exact = [s.version for s in wanted.specifier if s.operator == "=="]
            if wanted.name not in PINNED or not exact or not _always(wanted):
                continue
            if found.setdefault(wanted.name, exact[0]) != exact[0]:
                raise RefusedError(f"two versions of {wanted.name} are required: {text}")
        return dict(sorted(found.items()))


def _always(wanted: Requirement) -> bool:
    """Whether a requirement holds for every server, whatever its extras."""
    if wanted.marker is None:
        return True
    return any(wanted.marker.evaluate({"extra": extra}) for extra in _BASE_EXTRAS)


def open_wheel(wheel: Path) -> Release:
    """Open a wheel; the file stays open for as long as its release is used."""
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()
    described = next(n for n in names if n.endswith(".dist-info/METADATA"))
    return Release(
        version=str(parse_wheel_filename(wheel.name)[1]),
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        requires=tuple(parse_email(archive.read(described))[0].get("requires_dist", ())),
        paths=frozenset(names),
        read=archive.read,
    )


def open_installed() -> Release:
    """Open the SGLang that is installed, without importing it; PackageNotFoundError without one."""
    found = metadata.distribution("sglang")
    root = Path(str(found.locate_file("")))
    return Release(
        version=found.version,
        sha256=None,
        requires=tuple(found.requires or ()),
        paths=frozenset(str(PurePosixPath(path)) for path in found.files or ()),
        read=lambda path: (root / path).read_bytes(),
    )


def find_wheels(folder: Path, versions: Iterable[str] = ()) -> tuple[Path, ...]:
    """Return SGLang's wheels in a folder, oldest first; FileNotFoundError names a missing one."""
    found = {parse_wheel_filename(w.name)[1]: w for w in folder.glob("sglang-*.whl")}
    wanted = [Version(v) for v in versions]
    missing = [str(v) for v in wanted if v not in found]
    if missing:
        raise FileNotFoundError(f"no wheel of SGLang {', '.join(missing)} in {folder}")
    return tuple(found[version] for version in sorted(wanted or found))


def download(version: str, folder: Path) -> Path:
    """Fetch the wheel of one version with pip, from the index that pip is set up for.

    The same wheel on every machine, so that its hash says which one was read.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", *_WHEEL, "--dest", str(folder), f"sglang=={version}"]
    subprocess.run(command, check=True)  # noqa: S603 - pip, with a version for its only variable
    return find_wheels(folder, [version])[0]
