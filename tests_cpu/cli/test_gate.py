"""`eagle3-checks gate`: what its help says of exit codes is what it does."""

from __future__ import annotations

import subprocess
import sys

import pytest


def gate(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "eagle3_checks", "gate", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_help_names_every_code() -> None:
    run = gate("--help")
    assert run.returncode == 0
    told = " ".join(run.stdout.partition("exit codes:")[2].split())
    for code in ("0 pass", "1 fail", "7 inconclusive", "8 not run", "4 usage"):
        assert code in told
    assert max(map(len, run.stdout.splitlines())) <= 88


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--profile", "tiny", "--nonsense"), 2, "unrecognized arguments: --nonsense"),
        (("--profile", "nowhere"), 4, "no profile 'nowhere'"),
        (("--bisect", "--nonsense"), 125, "unrecognized arguments: --nonsense"),
        (("--bisect", "--profile", "nowhere"), 125, "no profile 'nowhere'"),
    ],
)
def test_usage(words: tuple[str, ...], code: int, says: str) -> None:
    run = gate(*words)
    assert run.returncode == code, run.stdout + run.stderr
    assert says in run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr
