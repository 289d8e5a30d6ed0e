"""SGLang releases side by side: an environment of its own for each, made by pip and kept.

On the CPU engine a release is laid over the environment of this one instead: its own files alone,
ahead on PYTHONPATH, while torch and the kernels stay (seconds and 120 MB in place of minutes and
11 GB).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

VERSION_SCRIPT = "import importlib.metadata as m; print(m.version('sglang'))"
_VERSION_SECONDS = 60
OVERLAY_FROM = "0.5.20"
"""First release seen to serve on the CPU over the environment made for 0.5.23; older ones refuse
its transformers."""
READY = "eagle3-checks-ready"
"""File that is written when an environment is whole."""
TAIL = 3


class EnvironmentFailedError(RuntimeError):
    """A release that cannot be had; the message says what pip said, and what to give instead."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Where a release is: an interpreter, and what goes ahead on its path."""

    version: str
    python: str
    overlay: str = ""

    def overrides(self, env: Mapping[str, str]) -> dict[str, object]:
        """Return the profile's settings that serve with it; `env` is its ``server.env``."""
        found: dict[str, object] = {"server.python": self.python, "server.sglang": self.version}
        if self.overlay:
            before = [env["PYTHONPATH"]] if env.get("PYTHONPATH") else []
            path = os.pathsep.join([self.overlay, *before])
            found["server.env"] = {**env, "PYTHONPATH": path}
        return found


@dataclass(frozen=True, kw_only=True)
class Environments:
    """Releases by version: given interpreters first, else made in a folder and kept."""

    folder: Path
    cpu: bool
    """Whether releases are laid over this environment for the CPU engine."""
    given: Mapping[str, str]
    """Interpreters by version."""
    tell: Callable[[str], None] = lambda _: None

    def servable(self, version: str) -> bool:
        """Whether a release can be served here at all."""
        return version in self.given or not self.cpu or Version(version) >= Version(OVERLAY_FROM)

    def get(self, version: str) -> Environment:
        """Return a release, installed where it is not there. Raises EnvironmentFailedError."""
        if version in self.given:
            return Environment(version=version, python=self.given[version])
        if not self.servable(version):
            raise EnvironmentFailedError(
                f"SGLang {version} does not run over the environment of a newer one; give an "
                f"interpreter that has it: --python {version}=PATH"
            )
        if self.cpu and installed_version(sys.executable) == version:
            return Environment(version=version, python=sys.executable)
        home = self.folder / f"{'overlay' if self.cpu else 'venv'}-{version}"
        with _locked(home):
            if not (home / READY).is_file():
                shutil.rmtree(home, ignore_errors=True)
                (self._overlay if self.cpu else self._venv)(version, home)
                (home / READY).touch()
        if self.cpu:
            return Environment(version=version, python=sys.executable, overlay=str(home))
        return Environment(version=version, python=str(home / "bin" / "python"))

    def _overlay(self, version: str, home: Path) -> None:
        self.tell(f"installing sglang {version} into {home}")
        words = ["--no-deps", "--no-compile", "--target", str(home), f"sglang=={version}"]
        _run([sys.executable, "-m", "pip", "install", "--quiet", *words], version)

    def _venv(self, version: str, home: Path) -> None:
        self.tell(f"installing sglang {version} with all it needs into {home} (minutes, 11 GB)")
        _run([sys.executable, "-m", "venv", "--without-pip", str(home)], version)
        pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python")]
        _run([*pip, "install", "--quiet", f"sglang=={version}"], version)


def default_folder() -> Path:
    """Return the folder that environments are kept in, below the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "eagle3-checks" / "sglang"


def parse_pythons(texts: list[str]) -> dict[str, str]:
    """Read ``X.Y.Z=PATH``; raises ValueError that says what is wrong with which."""
    found = {}
    for text in texts:
        version, _, path = text.partition("=")
        try:
            Version(version)
        except InvalidVersion:
            raise ValueError(f"--python {text}: write it as in --python 0.5.22=PATH") from None
        if not os.access(path, os.X_OK):
            raise ValueError(f"--python {text}: there is no interpreter at {path or '(nothing)'}")
        found[version] = str(Path(path).absolute())  # a venv's link stays what it is
    return found


def installed_version(python: str) -> str | None:
    """Return the version of SGLang in an interpreter's environment; None where there is none."""
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter the user named
            [python, "-c", VERSION_SCRIPT],
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _run(command: list[str], version: str) -> None:
    done = subprocess.run(  # noqa: S603 - pip and venv of this interpreter
        command, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = " / ".join((done.stderr or done.stdout).strip().splitlines()[-TAIL:])
        raise EnvironmentFailedError(
            f"SGLang {version} could not be installed: {said}; give an interpreter that has it: "
            f"--python {version}=PATH"
        )


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Let one process make an environment while others wait for it."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_name(f".{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
