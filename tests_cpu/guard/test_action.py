"""The GitHub Action's steps, run as GitHub runs them (installing is tried by .ci/guard)."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eagle3_checks.version import VERSION
from tests_cpu.guard.ci_files import (
    ACTION,
    EXPRESSION,
    Ran,
    gitlab_script,
    read,
    run_action,
    uses_of,
)

EXAMPLE = ACTION.parent / "docs" / "examples" / "drafter-repo"
Run = Callable[..., Ran]
Pair = Callable[..., tuple[Path, Path]]
# Tells its arguments, one a line, and ends as it is told.
STUB = """#!{python}
import os, sys
print(*sys.argv[1:], sep="\\n")
print("sglang", os.environ.get("EAGLE3_CHECKS_SERVER_SGLANG"))
sys.exit(int(os.environ.get("CODE", "0")))
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work space"
    folder.mkdir()
    return folder


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return the runner's temporary folder, where the action has installed the suite."""
    bin_ = tmp_path / "temp" / "eagle3-checks" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "eagle3-checks").symlink_to(Path(sys.executable).with_name("eagle3-checks"))
    return tmp_path / "temp"


@pytest.fixture
def judge(workspace: Path, installed: Path) -> Run:
    """Return `judge(inputs, **environment)`, which runs the second step."""
    return lambda given, **environment: run_action(
        given, workspace, installed, ["judge"], {**os.environ, **environment}
    )


@pytest.fixture
def stub(installed: Path) -> None:
    """Put a stub in the place of the suite."""
    file = installed / "eagle3-checks" / "bin" / "eagle3-checks"
    file.unlink()
    file.write_text(STUB.format(python=sys.executable))
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def test_a_healthy_drafter_passes(judge: Run, workspace: Path, healthy_pair: Pair) -> None:
    healthy_pair(workspace)
    ran = judge({"drafter": "drafter", "target": "target"})
    assert ran.code == 0, ran.printed
    assert ran.outputs == {"verdict": "pass", "result": ""}
    assert "::error" not in ran.printed


def test_a_broken_one_is_annotated_at_its_file(
    judge: Run, workspace: Path, healthy_pair: Pair
) -> None:
    healthy_pair(workspace, layer="decoder")
    ran = judge({"drafter": "drafter"})
    assert (ran.code, ran.outputs["verdict"]) == (1, "fail")
    assert "::error file=drafter/config.json,title=KEY001 " in ran.printed


def test_the_version_and_more_arguments(judge: Run, workspace: Path, healthy_pair: Pair) -> None:
    healthy_pair(workspace, layer="layers.0")
    assert judge({"drafter": "drafter"}).code == 0
    assert judge({"drafter": "drafter", "sglang": "0.5.9"}).code == 1
    words = "--ignore=KEY=renamed at load, by a patch\n\n--sglang=0.5.9\n"
    assert judge({"drafter": "drafter", "arguments": words}).code == 0


def test_a_gate_is_asked_for_by_its_profile(judge: Run, stub: None, installed: Path) -> None:
    given = {"profile": "my drafter.toml", "drafter": "d", "target": "t", "sglang": "0.5.12"}
    ran = judge({**given, "arguments": "--keep-going\n--\n-k\nKEY001"})
    assert ran.printed.splitlines() == [
        "gate",
        "--profile=my drafter.toml",
        f"--json={installed}/eagle3-result.json",
        f"--artefacts={installed}/eagle3-artefacts",
        "--target=t",
        "--draft=d",
        *("--keep-going", "--", "-k", "KEY001"),
        "sglang 0.5.12",
    ]
    assert ran.outputs["result"] == f"{installed}/eagle3-result.json"


@pytest.mark.parametrize(
    ("code", "verdict"),
    [(0, "pass"), (1, "fail"), (4, "error"), (7, "inconclusive"), (8, "not-run"), (130, "error")],
)
def test_the_exit_code_becomes_the_verdict(judge: Run, stub: None, code: int, verdict: str) -> None:
    ran = judge({"profile": "tiny"}, CODE=str(code))
    assert (ran.code, ran.outputs["verdict"]) == (code, verdict)


def test_nothing_given_is_a_usage_error(judge: Run) -> None:
    ran = judge({"target": "target"})
    assert (ran.code, ran.outputs["verdict"]) == (2, "")
    assert "::error title=eagle3-checks::give the input drafter" in ran.printed


HOSTILE = 'x\'; touch hit; "$(touch hit)" `touch hit` ${{ github.token }} && touch hit #'


@pytest.mark.parametrize("name", ["drafter", "target", "sglang", "arguments", "profile"])
def test_an_input_is_never_code(judge: Run, workspace: Path, name: str) -> None:
    ran = judge({"drafter": "nowhere", name: HOSTILE})
    assert ran.code != 0
    assert not (workspace / "hit").exists()


@pytest.mark.parametrize("name", ["drafter", "target", "sglang", "profile"])
def test_an_input_is_never_an_option(judge: Run, stub: None, name: str) -> None:
    printed = judge({"drafter": "d", name: "--help"}).printed.splitlines()
    before = printed[: printed.index("--")] if "--" in printed else printed
    assert "--help" not in before


def test_no_script_takes_an_expression_or_shows_the_environment() -> None:
    for step in read(ACTION)["runs"]["steps"]:
        assert not EXPRESSION.search(step["run"])
        assert "${{" not in step["run"]
        assert not {"env", "printenv", "set -x"} & {
            line.strip() for line in step["run"].splitlines()
        }


def test_every_input_is_explained_and_used() -> None:
    action = read(ACTION)
    used = {
        m for s in action["runs"]["steps"] for v in s["env"].values() for m in EXPRESSION.findall(v)
    }
    assert {f"inputs.{name}" for name in action["inputs"]} == used
    assert all(spec["description"] for spec in action["inputs"].values())


def test_the_example_uses_what_there_is() -> None:
    jobs = ("files", "served")
    workflow = EXAMPLE / ".github" / "workflows" / "drafter.yml"
    inputs = [given for job in jobs for given in uses_of(workflow, job)]
    assert len(inputs) == len(jobs)
    assert {name for given in inputs for name in given} <= set(read(ACTION)["inputs"])
    for job in jobs:
        script, variables = gitlab_script(EXAMPLE / ".gitlab-ci.yml", job)
        assert "$EAGLE3_SUITE" in script
        assert "EAGLE3_SUITE" in variables


def test_the_example_uses_this_version() -> None:
    files = [path for path in EXAMPLE.rglob("*.y*ml") if path.is_file()]
    for path in [*files, ACTION.parent / "docs" / "guides" / "ci.md"]:
        named = re.findall(r"(?:@|rev: )v([\d.]+)$", path.read_text(), re.MULTILINE)
        ours = [version for version in named if "." in version]
        assert set(ours) == {VERSION}, path


def test_the_result_of_a_real_gate(
    judge: Run, workspace: Path, installed: Path, healthy_pair: Pair
) -> None:
    """Files with errors: the gate ends before a server, and the result is where it says."""
    healthy_pair(workspace, layer="decoder")
    (workspace / "p.toml").write_text('[target]\npath="target"\n[drafter]\npath="drafter"\n')
    ran = judge({"profile": "p.toml", "sglang": "0.5.23"})
    assert (ran.code, ran.outputs["verdict"]) == (1, "fail"), ran.printed
    assert json.loads(Path(ran.outputs["result"]).read_text())["subject"]["sglang"] == "0.5.23"
    assert "::error " in ran.printed
    assert "FAIL" in (installed / "summary.md").read_text().upper()
