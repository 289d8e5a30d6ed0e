"""Runs what CI systems would run: the action's steps as GitHub does, a script as GitLab does.

``python tests_cpu/guard/ci_files.py github WORKFLOW JOB`` and ``… gitlab FILE JOB``, in a copy of
the repository that the file belongs to. It imports nothing of the project: what runs is installed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / "action.yml"
USES = "OWNER/eagle3-checks@"
EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What an action did: its exit code, all it printed, its outputs."""

    code: int
    printed: str
    outputs: Mapping[str, str]


def read(path: Path) -> Any:
    """Read a YAML file; `on:` stays the text it is for GitHub."""
    return yaml.load(path.read_text(), Loader=yaml.BaseLoader)  # noqa: S506 - texts alone


def run_action(
    given: Mapping[str, str],
    workspace: Path,
    temp: Path,
    steps: Sequence[str] = ("install", "judge"),
    environ: Mapping[str, str] = os.environ,
) -> Ran:
    """Run the action with these inputs in a workspace, up to the first step that fails.

    `temp` is the runner's folder for temporary files; `steps` are the ids of those to run.
    Raises ValueError for an input that the action does not have.
    """
    action = read(ACTION)
    if unknown := set(given) - set(action["inputs"]):
        raise ValueError(f"action.yml has no input {', '.join(sorted(unknown))}")
    context = {f"inputs.{name}": spec["default"] for name, spec in action["inputs"].items()}
    context |= {f"inputs.{name}": value for name, value in given.items()}
    printed, code = "", 0
    for step in action["runs"]["steps"]:
        if step["id"] not in steps or code:
            continue
        code, text, outputs = _run_step(step, context, workspace, temp, environ)
        printed += text
        context |= {f"steps.{step['id']}.outputs.{name}": v for name, v in outputs.items()}
    outputs = {name: fill(spec["value"], context) for name, spec in action["outputs"].items()}
    return Ran(code=code, printed=printed, outputs=outputs)


def _run_step(
    step: Mapping[str, Any],
    context: Mapping[str, str],
    workspace: Path,
    temp: Path,
    environ: Mapping[str, str],
) -> tuple[int, str, dict[str, str]]:
    script, output = temp / f"{step['id']}.sh", temp / f"{step['id']}.output"
    script.write_text(step["run"])
    output.touch()
    done = subprocess.run(
        [*BASH, script],
        cwd=workspace,
        env={
            **environ,
            **{name: fill(text, context) for name, text in step.get("env", {}).items()},
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_WORKSPACE": str(workspace),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(temp / "summary.md"),
            "RUNNER_TEMP": str(temp),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    lines = output.read_text().splitlines()
    return done.returncode, done.stdout, dict(line.split("=", 1) for line in lines)


def fill(text: str, context: Mapping[str, str]) -> str:
    """Replace the expressions of a text; an output that was never set is empty, as on GitHub."""
    return EXPRESSION.sub(lambda match: context.get(match[1], ""), text)


def uses_of(workflow: Path, job: str) -> Iterator[dict[str, str]]:
    """Yield the inputs of each step of a workflow's job that uses this action."""
    for step in read(workflow)["jobs"][job]["steps"]:
        if step.get("uses", "").startswith(USES):
            yield step.get("with", {})


def gitlab_script(path: Path, job: str) -> tuple[str, dict[str, str]]:
    """Return a job's script and the variables of its file."""
    pipeline = read(path)
    return "\n".join(pipeline[job]["script"]), dict(pipeline.get("variables", {}))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one job in the working folder; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", choices=("github", "gitlab"))
    parser.add_argument("file", type=Path)
    parser.add_argument("job")
    arguments = parser.parse_args(argv)
    if arguments.system == "gitlab":
        script, variables = gitlab_script(arguments.file, arguments.job)
        done = subprocess.run([*BASH, "-c", script], env=variables | os.environ, check=False)
        return done.returncode
    found = list(uses_of(arguments.file, arguments.job))
    if not found:
        raise ValueError(f"{arguments.file}: no step of {arguments.job} uses {USES}…")
    with tempfile.TemporaryDirectory() as temp:
        for given in found:
            ran = run_action(given, Path.cwd(), Path(temp))
            sys.stdout.write(ran.printed)
            sys.stdout.write(f"outputs: {dict(ran.outputs)}\n")
            if ran.code:
                return ran.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
