"""`inspect` and its neighbours work where neither torch nor sglang nor numpy can be imported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eagle3_checks.shipped import shipped

Pair = Callable[..., tuple[Path, Path]]

BLOCKED = """\
import sys

class Blocker:
    names = {"torch", "sglang", "numpy", "transformers", "sgl_kernel"}
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Blocker())
from eagle3_checks.cli import main
code = main(sys.argv[1:])
print(*sorted({m.partition(".")[0] for m in sys.modules}), file=sys.stderr)
sys.exit(code)
"""


def bare(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCKED, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_inspect_needs_none_of_them() -> None:
    pair = shipped("fixtures", "tiny")
    words = ("--target", pair / "target", "--values", "--format", "json")
    done = bare("inspect", pair / "drafter", *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "pass"


def test_inspect_does_not_load_what_it_does_not_use(tmp_path: Path, healthy_pair: Pair) -> None:
    _, drafter = healthy_pair(tmp_path)
    loaded = set(bare("inspect", drafter, "--format", "json").stderr.split())
    assert not loaded & {"huggingface_hub", "requests", "httpx", "rich", "pytest", "safetensors"}
    assert not loaded & {"email", "tempfile", "tomllib", "zipfile"}, "a seventh of its start-up"


@pytest.mark.parametrize(
    "words", [("explain", "KEY001"), ("explain", "fus"), ("explain",), ("--version",)]
)
def test_explain_needs_none_of_them(words: tuple[str, ...]) -> None:
    assert bare(*words).returncode == 0


def test_explain_lists_a_family_and_names_the_nearest_code() -> None:
    lines = bare("explain", "key").stdout.splitlines()
    assert len(lines) > 5
    assert all(line.startswith("KEY") for line in lines)
    done = bare("explain", "KEY0O1")
    assert done.returncode == 2
    assert "no rule 'KEY0O1'; the nearest is KEY001" in done.stderr


def test_repackage_needs_none_of_them(tmp_path: Path, healthy_pair: Pair) -> None:
    _, drafter = healthy_pair(tmp_path, layer="layers.0")
    done = bare("repackage", drafter, tmp_path / "out", "--sglang", "0.5.9")
    assert done.returncode == 0, done.stderr
