"""An environment with the base dependencies alone, as the package declares them, inspects drafters.

It is made from the distributions of the running environment, linked one by one: nothing is
downloaded, and nothing that is not declared can be imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import venv
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import eagle3_checks
from eagle3_checks.shipped import shipped

NAME = "eagle3-checks"
HEAVY = ("torch", "sglang", "numpy", "transformers", "jinja2", "hypothesis")
Bare = Callable[..., subprocess.CompletedProcess[str]]


def declared(name: str, seen: dict[str, Distribution]) -> dict[str, Distribution]:
    """Return a distribution and all that it requires without extras, by name."""
    found = distribution(name)
    if canonicalize_name(name) not in seen:
        seen[canonicalize_name(name)] = found
        for line in found.requires or ():
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                declared(wanted.name, seen)
    return seen


def parts(found: Distribution) -> Iterator[Path]:
    """Yield the files and folders that a distribution has at the top of its folder."""
    names = {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}
    yield from (Path(str(found.locate_file(n))) for n in names if not n.endswith(".pth"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    """Return `bare(*words)`: runs Python in the environment."""
    home = tmp_path_factory.mktemp("bare")
    venv.create(home / "env", symlinks=True, with_pip=False)
    place = {"base": str(home / "env"), "platbase": str(home / "env")}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=place))
    # First, since an editable install has but the shipped files of it beside the others.
    sources = [Path(eagle3_checks.__file__).parent]
    for found in declared(NAME, {}).values():
        sources += parts(found)
    for source in sources:
        link = packages / source.name
        if not link.exists():
            link.symlink_to(source)

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        # Whatever the tests run with, none of it leads to another environment.
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "EAGLE3_"))}
        command = [str(home / "env" / "bin" / "python"), *map(str, words)]
        return subprocess.run(
            command, cwd=home, env=kept, capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.parametrize("heavy", HEAVY)
def test_nothing_else_is_there(bare: Bare, heavy: str) -> None:
    done = bare("-c", f"import {heavy}")
    assert f"No module named '{heavy}'" in done.stderr


@pytest.mark.parametrize("words", [(), ("--values",), ("--sglang", "0.5.9"), ("--verbose",)])
@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_inspect_runs(bare: Bare, words: tuple[str, ...], form: str) -> None:
    pair = shipped("fixtures", "tiny")
    given = ("--target", pair / "target", "--format", form, *words)
    done = bare("-m", "eagle3_checks", "inspect", pair / "drafter", *given)
    assert (done.returncode, done.stderr) == (0, "")
    if form == "json":
        result: dict[str, Any] = json.loads(done.stdout)
        assert result["verdict"] == "pass"
        judged = {f["status"] for f in result["findings"] if f["family"] == "VAL"}
        assert ("pass" in judged) is ("--values" in words)


def test_a_fault_is_found_and_mended(bare: Bare, tmp_path: Path, healthy_pair: Any) -> None:
    _, drafter = healthy_pair(tmp_path, layer="layers.0")
    words = ("-m", "eagle3_checks")
    done = bare(*words, "inspect", drafter, "--sglang", "0.5.9")
    assert done.returncode == 1
    assert "KEY003" in done.stdout
    done = bare(*words, "repackage", drafter, tmp_path / "out", "--sglang", "0.5.9")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [("explain", "KEY001"), ("--version",), ("--help",)])
def test_its_neighbours_run(bare: Bare, words: tuple[str, ...]) -> None:
    done = bare("-m", "eagle3_checks", *words)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_hub_id_is_asked_for_through_the_hub_s_library(bare: Bare) -> None:
    program = (
        "import huggingface_hub.constants as c; c.ENDPOINT = 'http://127.0.0.1:9'\n"
        "from eagle3_checks.cli import main; raise SystemExit(main(['inspect', 'org/name']))"
    )
    done = bare("-c", program)
    assert done.returncode == 1
    assert "no connection" in done.stdout
