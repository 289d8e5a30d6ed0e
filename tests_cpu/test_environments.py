"""Releases side by side, installed from a folder of wheels made here: no network."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from eagle3_checks.environments import (
    READY,
    EnvironmentFailedError,
    Environments,
    default_folder,
    installed_version,
    parse_pythons,
)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make pip find one release of a package called sglang, and nothing else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    info = "sglang-0.5.22.dist-info"
    with zipfile.ZipFile(folder / "sglang-0.5.22-py3-none-any.whl", "w") as wheel:
        wheel.writestr("sglang/__init__.py", "here = __file__\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.22\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def which(python: str, path: str = "") -> tuple[str, str]:
    script = "import sglang, importlib.metadata as m; print(sglang.here, m.version('sglang'))"
    environment = os.environ | ({"PYTHONPATH": path} if path else {})
    done = subprocess.run(
        [python, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    here, version = done.stdout.split()
    return here, version


@pytest.mark.parametrize("kind", ["overlay", "venv"])
def test_a_release_is_installed_once_and_served_from(
    kind: str, wheels: Path, tmp_path: Path
) -> None:
    told: list[str] = []
    cpu = kind == "overlay"
    releases = Environments(folder=tmp_path / "envs", cpu=cpu, given={}, tell=told.append)
    found = releases.get("0.5.22")
    overrides = found.overrides({"A": "1", "PYTHONPATH": "before"})
    assert overrides["server.sglang"] == "0.5.22"
    path = ""
    if cpu:
        env = overrides["server.env"]
        assert isinstance(env, dict)
        path = env["PYTHONPATH"]
        assert env == {"A": "1", "PYTHONPATH": f"{found.overlay}:before"}
    here, version = which(found.python, path)
    assert here.startswith(str(tmp_path / "envs"))
    assert version == "0.5.22"
    assert len(told) == 1
    assert releases.get("0.5.22") == found
    assert len(told) == 1


def test_one_that_was_left_half_made_is_made_anew(wheels: Path, tmp_path: Path) -> None:
    releases = Environments(folder=tmp_path / "envs", cpu=True, given={})
    home = Path(releases.get("0.5.22").overlay)
    (home / READY).unlink()
    (home / "sglang" / "__init__.py").write_text("broken")
    releases.get("0.5.22")
    assert which(sys.executable, str(home))[1] == "0.5.22"


def test_what_cannot_be_had_is_told(wheels: Path, tmp_path: Path) -> None:
    releases = Environments(folder=tmp_path / "envs", cpu=True, given={})
    with pytest.raises(EnvironmentFailedError, match=r"0\.5\.21 could not be .*--python 0\.5\.21="):
        releases.get("0.5.21")
    assert not (tmp_path / "envs" / "overlay-0.5.21" / READY).exists()
    assert not releases.servable("0.5.18")
    with pytest.raises(EnvironmentFailedError, match=r"give an interpreter .*--python 0\.5\.18="):
        releases.get("0.5.18")


def test_a_given_interpreter_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = parse_pythons([f"0.5.9={sys.executable}"])
    releases = Environments(folder=tmp_path / "envs", cpu=True, given=given)
    assert releases.servable("0.5.9")
    assert releases.get("0.5.9").python == sys.executable
    assert not (tmp_path / "envs").exists()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "eagle3-checks" / "sglang"


def test_what_is_here_already_is_not_laid_over_itself(tmp_path: Path) -> None:
    here = importlib.metadata.version("sglang")
    found = Environments(folder=tmp_path / "envs", cpu=True, given={}).get(here)
    assert (found.python, found.overlay) == (sys.executable, "")
    assert not (tmp_path / "envs").exists()


def test_the_version_of_an_interpreter() -> None:
    assert installed_version(sys.executable) == importlib.metadata.version("sglang")
    assert installed_version("/no/such/python") is None
    assert installed_version("/bin/false") is None
