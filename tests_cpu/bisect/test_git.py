"""`git bisect run eagle3-checks gate --bisect` in a small repository: docs/git-bisect.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.bisect import write_drafter
from tests_cpu.bisect.conftest import FAKE, TINY

COMMITS = 16
PLANTED, NO_SERVER, FLAKY = 10, (4, 7, 13), 12
WHO = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull} | {
    f"GIT_{who}_{what}": "tests@example.org"
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}


def git(repository: Path, *words: str, minute: int = 0) -> str:
    """Run git at a given minute: which of two commits it tries first depends on their dates."""
    when = dict.fromkeys(
        ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"2026-01-01T00:{minute:02}:00Z"
    )
    done = subprocess.run(
        ["git", *words],  # noqa: S607 - the one on PATH
        cwd=repository,
        env=os.environ | WHO | when,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def profile(prompts: Path, flags: list[str]) -> str:
    command = json.dumps([sys.executable, str(FAKE), *flags])
    return (
        f'[target]\npath = "{TINY / "target"}"\n[drafter]\npath = "{TINY / "drafter"}"\n'
        f'[server]\ndevice = "cpu"\nsglang = "0.5.23"\nstart_timeout = 20\ncommand = {command}\n'
        f'[prompts]\nsets = ["{prompts}"]\nmax_new_tokens = 8\n'
        "[speed]\nconcurrencies = [1]\nrequests = 2\n[floors]\naccept_length = 1.5\n"
    )


def history(repository: Path, files: Mapping[int, str]) -> None:
    """Commit one version of the profile after the other."""
    git(repository, "init", "--quiet", "--initial-branch=main")
    for number, text in files.items():
        (repository / "drafter.toml").write_text(f"# {number}\n{text}")
        git(repository, "add", "drafter.toml")
        git(repository, "commit", "--quiet", "--message", f"Change {number}", minute=number)
    git(repository, "bisect", "start", "main", "main~15", "--")


def first_bad(repository: Path, *words: str) -> tuple[str, str]:
    """Run the bisect; return the subject of the first bad commit, and git's own log."""
    command = [sys.executable, "-m", "eagle3_checks", "gate", "--bisect"]
    command += ["--profile", "drafter.toml", "--artefacts", str(repository.parent / "a"), *words]
    said = git(repository, "bisect", "run", *command)
    found = re.search(r"^(\w{40}) is the first bad commit$", said, re.MULTILINE)
    assert found, said
    subject = git(repository, "show", "--no-patch", "--format=%s", found[1]).strip()
    return subject, git(repository, "bisect", "log")


def skipped(log: str) -> set[int]:
    return {int(n) for n in re.findall(r"^# skip: \[\w+\] Change (\d+)$", log, re.MULTILINE)}


def test_the_planted_commit_is_named(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("\n".join(json.dumps({"text": f"p{i}"}) for i in range(8)))
    files = {}
    for number in range(COMMITS):
        flags = ["--histogram", "40,1,0,0" if number >= PLANTED else "4,3,2,1"]
        flags += ["--exits", "3"] if number in NO_SERVER else []
        flags += ["--flaky", str(tmp_path / "seen")] if number == FLAKY else []
        files[number] = profile(prompts, flags)
    repository = tmp_path / "repository"
    repository.mkdir()
    history(repository, files)
    subject, log = first_bad(repository, "--select", "SRV,ACC")
    assert subject == f"Change {PLANTED}"
    # Which commits git tries in place of one without a server depends on the commits' hashes.
    if (tmp_path / "seen").exists():
        assert FLAKY in skipped(log)
    assert skipped(log)
    assert skipped(log) <= {*NO_SERVER, FLAKY}


@pytest.mark.slow
@pytest.mark.serve
@pytest.mark.timeout(1500)
def test_on_the_real_server(tmp_path: Path) -> None:
    for name in ("good", "bad"):
        write_drafter(tmp_path / name, 1, "diverged" if name == "bad" else "")
    files = {}
    for number in range(COMMITS):
        name = "bad" if number >= PLANTED else "good"
        flaky = f"test -e {tmp_path}/seen || {{ touch {tmp_path}/seen; exit 4; }}; "
        start = (
            flaky if number == FLAKY else ""
        ) + f'exec {sys.executable} -m sglang.launch_server "$@"'
        files[number] = (
            f'[target]\npath = "{TINY / "target"}"\n[drafter]\npath = "{tmp_path / name}"\n'
            f'[server]\ndevice = "cpu"\nsglang = "0.5.23"\nstart_timeout = 300\n'
            f"command = {json.dumps(['sh', '-c', start, 'server'])}\n"
            f"args = {json.dumps(['--no-such-flag'] if number in NO_SERVER else [])}\n"
            '[prompts]\nsets = ["heldout-code"]\nlimit = 24\nmax_new_tokens = 64\n'
            "[floors]\naccept_length = 1.8\n"
        )
    repository = tmp_path / "repository"
    repository.mkdir()
    history(repository, files)
    subject, log = first_bad(repository, "--select", "SRV,ACC")
    assert subject == f"Change {PLANTED}"
    if (tmp_path / "seen").exists():
        assert FLAKY in skipped(log)
    assert skipped(log) <= {*NO_SERVER, FLAKY}
