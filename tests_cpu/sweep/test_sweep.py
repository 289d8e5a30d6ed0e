"""`eagle3-checks sweep` on a local Ray of two workers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.server.leftovers import leftovers
from tests_cpu.bisect.conftest import FAKE, TINY

KILLS = Path(__file__).with_name("kills_worker.py")
SIX = ["--steps", "1,2,3", "--topk", "1,2", "--draft-tokens", "3"]
COMMAND = [sys.executable, "-m", "eagle3_checks", "sweep", "--out", "out", "--json", "out.json"]


def profile(place: Path, command: Sequence[str], prompts: str, more: str = "") -> Path:
    path = place / "profile.toml"
    path.write_text(
        f'[target]\npath = "{TINY / "target"}"\n[drafter]\npath = "{TINY / "drafter"}"\n'
        f'[server]\ndevice = "cpu"\nsglang = "0.5.23"\nstart_timeout = 300\n'
        f"command = {json.dumps(command)}\n"
        f'[prompts]\nsets = ["{prompts}"]\nlimit = 8\nmax_new_tokens = 32\n'
        f"[speed]\nconcurrencies = [1, 2]\nrequests = 4\nmax_new_tokens = 32\n{more}"
    )
    return path


def stand_in(place: Path, *before: str) -> Path:
    prompts = place / "prompts.jsonl"
    prompts.write_text("\n".join(json.dumps({"text": f"p{i}"}) for i in range(8)))
    return profile(place, [*before, sys.executable, str(FAKE)], str(prompts))


def sweep(place: Path, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*COMMAND, *words],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def table(place: Path) -> dict[str, Any]:
    data = json.loads((place / "out.json").read_text())
    assert isinstance(data, dict)
    return data


def left(place: Path) -> list[str]:
    """Return the watchdogs of this test that are still there; they outlive their servers."""
    return [process.cmdline for process in leftovers() if str(place) in process.cmdline]


def six(place: Path, path: Path, flag: Path) -> dict[str, Any]:
    code, out, err = sweep(place, "--profile", str(path), *SIX, "--slots", "2")
    assert code == 0, out + err
    assert flag.read_text().isdigit()  # a worker was killed
    found = table(place)
    ids = [trial["id"] for trial in found["trials"]]
    assert len(set(ids)) == len(ids) == err.count("done ") == 6
    assert {p.stem for p in (place / "out" / "results").iterdir()} == set(ids)
    assert all(len(trial["tokens_per_second"]) == 2 for trial in found["trials"]), out
    assert not left(place)
    return found


def test_six_trials_and_a_worker_that_is_killed(tmp_path: Path) -> None:
    flag = tmp_path / "killed"
    found = six(tmp_path, stand_in(tmp_path, sys.executable, str(KILLS), str(flag)), flag)
    assert [best["concurrency"] for best in found["best"]] == [1, 2]


@pytest.mark.slow
@pytest.mark.serve
@pytest.mark.timeout(1500)
def test_six_trials_on_the_real_server(tmp_path: Path) -> None:
    flag = tmp_path / "killed"
    real = [sys.executable, str(KILLS), str(flag), sys.executable, "-m", "sglang.launch_server"]
    found = six(tmp_path, profile(tmp_path, real, "heldout-code"), flag)
    assert {trial["verdict"] for trial in found["trials"]} == {"pass"}


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    words = ["--profile", str(stand_in(tmp_path)), "--steps", "1,2,3", "--slots", "1"]
    process = subprocess.Popen(
        [*COMMAND, *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    told = iter(process.stderr.readline, "")
    assert next(line for line in told if line.startswith("done "))
    process.kill()
    process.communicate()
    kept = {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "results").glob("[!.]*.json")}
    assert kept
    code, out, err = sweep(tmp_path, *words)
    assert code == 0, out + err
    already = re.search(r"3 trials, (\d) of them have a result already", err)
    assert already
    assert len(kept) <= int(already[1]) < 3
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert not left(tmp_path)
