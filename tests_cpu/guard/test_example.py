"""The example of a drafter's own repository: its tests and its hook, with and without a profile."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eagle3_checks.shipped import shipped
from tests_cpu.guard.ci_files import ROOT, read

EXAMPLE = ROOT / "docs" / "examples" / "drafter-repo"
FAKE = ROOT / "tests_cpu" / "plugin" / "fake_sglang.py"


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """Return a copy of the example with the tiny pair as what it trains, served by a stand-in."""
    folder = tmp_path / "drafter-repo"
    shutil.copytree(EXAMPLE, folder)
    for name in ("target", "drafter"):
        (folder / name).symlink_to(shipped("fixtures", "tiny", name))
    profile = folder / "my-drafter.toml"
    command = json.dumps([sys.executable, str(FAKE)])
    served = f'device = "cpu"\nsglang = "0.5.23"\ncommand = {command}'
    profile.write_text(profile.read_text().replace('device = "cpu"', served))
    return folder


def run(example: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rN", *words]
    return subprocess.run(command, cwd=example, capture_output=True, text=True, check=False)


def test_a_usual_run_leaves_the_gate_out(example: Path) -> None:
    done = run(example)
    assert done.returncode == 0, done.stdout
    assert "1 passed, 6 deselected" in done.stdout
    assert "verdict" not in done.stdout


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_with_a_profile_the_drafter_is_served_and_judged(
    example: Path, words: tuple[str, ...]
) -> None:
    words += ("--eagle3-profile", "my-drafter.toml", "--junitxml", "junit.xml")
    done = run(example, *words)
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout
    assert "verdict    PASS" in done.stdout
    assert 'name="eagle3.measured"' in (example / "junit.xml").read_text()


def test_a_floor_that_is_missed_fails_the_run(example: Path) -> None:
    profile = example / "my-drafter.toml"
    profile.write_text(profile.read_text().replace("= 1.6", "= 2.6"))
    done = run(example, "--eagle3-profile", "my-drafter.toml")
    assert done.returncode == 1
    assert re.search(r"(?m)^ACC001 .* FAIL$", done.stdout)


def hooks() -> Iterator[tuple[dict[str, str], dict[str, object]]]:
    """Yield each hook that the example uses, as it is offered and as it is used."""
    offered = {hook["id"]: hook for hook in read(ROOT / ".pre-commit-hooks.yaml")}
    for repository in read(EXAMPLE / ".pre-commit-config.yaml")["repos"]:
        for used in repository["hooks"]:
            yield offered[used["id"]], used


@pytest.mark.parametrize("change", ["", "config"])
def test_the_hook_judges_the_drafter_it_is_given(example: Path, change: str) -> None:
    ((offered, used),) = hooks()
    if change:
        (example / "drafter").unlink()
        (example / "drafter").mkdir()
        (example / "drafter" / "config.json").write_text("{")
    _, *words = offered["entry"].split()
    command = [sys.executable, "-m", "eagle3_checks", *words, *map(str, used["args"])]  # type: ignore[call-overload]
    done = subprocess.run(command, cwd=example, capture_output=True, text=True, check=False)
    assert done.returncode == (1 if change else 0), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("config.json", True),
        ("drafter/config.json", True),
        ("a/model-00001-of-00002.safetensors", True),
        ("a/model.safetensors.index.json", True),
        ("a/generation_config.json", False),
        ("tokenizer.json", False),
        ("train.py", False),
    ],
)
def test_the_hook_runs_where_a_checkpoint_changed(path: str, *, wanted: bool) -> None:
    ((offered, _),) = hooks()
    assert bool(re.search(offered["files"], path)) is wanted
