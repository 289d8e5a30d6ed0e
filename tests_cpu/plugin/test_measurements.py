"""Baselines and the comparison with no speculation, by running pytest in pytest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., pytest.RunResult]
Write = Callable[..., Path]


def message(pytester: pytest.Pytester, code: str = "ACC005") -> str:
    found = json.loads((pytester.path / "out.json").read_text())["findings"]
    return str(next(f["message"] for f in found if f["code"] == code))


def test_a_first_run_is_recorded_and_a_worse_one_fails(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    words = ("--eagle3-baseline", "kept", "--eagle3-json", "out.json")
    run = run_gate("--eagle3-profile", str(write_profile()), *words)
    assert run.ret == 0
    assert "nothing to compare with: this run was recorded as " in message(pytester)
    (path,) = (pytester.path / "kept").iterdir()
    assert json.loads(path.read_text())["accept_length"] == pytest.approx(2.0)

    worse = write_profile("--histogram", "5,3,1,1")
    run = run_gate("--eagle3-profile", str(worse), *words)
    assert run.ret == 1
    run.stdout.fnmatch_lines(["*ACC005*FAIL*"])
    assert message(pytester).startswith("accept length -10.0 % [")
    assert message(pytester).endswith("; a loss of 3 % is allowed")
    assert json.loads(path.read_text())["accept_length"] == pytest.approx(2.0)

    run = run_gate("--eagle3-profile", str(worse), *words, "--eagle3-update-baseline")
    assert run.ret == 0
    data = json.loads(path.read_text())
    assert data["accept_length"] == pytest.approx(1.8)
    assert [entry["verdict"] for entry in data["history"]] == ["baseline", "missed", "baseline"]


def test_xdist_records_once(pytester: pytest.Pytester, write_profile: Write, run_gate: Run) -> None:
    words = ("--eagle3-baseline", "kept", "--eagle3-json", "out.json", "-n", "2")
    assert run_gate("--eagle3-profile", str(write_profile()), *words).ret == 0
    assert "this run was recorded as " in message(pytester)
    (path,) = (pytester.path / "kept").iterdir()
    assert len(json.loads(path.read_text())["history"]) == 1


def test_a_baseline_that_cannot_be_read_is_7(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    (pytester.path / "old.json").write_text("{")
    profile = write_profile()
    run = run_gate("--eagle3-profile", str(profile), "--eagle3-baseline", "old.json")
    assert run.ret == 7
    run.stdout.fnmatch_lines(["*no baseline:*", "*old.json*", "*is not JSON*"])


def test_speed_is_compared_with_a_second_launch(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    profile = str(write_profile())
    words = ("--eagle3-profile", profile, "--eagle3-compare-base", "--eagle3-json", "out.json")
    run_gate(*words)  # what noise makes of the ratio decides about its exit code
    assert " times at 2" in message(pytester, "SPD004")
    measured = json.loads((pytester.path / "out.json").read_text())["measurements"]
    assert [s["concurrency"] for s in measured["throughput"]["base"]] == [1, 2]
    assert [u["concurrency"] for u in measured["throughput"]["speed_ups"]] == [1, 2]
    assert (pytester.path / "eagle3-artefacts" / "base" / "server.log").exists()


def test_a_base_that_does_not_serve_is_7(write_profile: Write, run_gate: Run) -> None:
    profile = str(write_profile())
    nowhere = "http://127.0.0.1:9"
    run = run_gate("--eagle3-profile", profile, "--eagle3-compare-base", nowhere)
    assert run.ret == 7
    run.stdout.fnmatch_lines(["*the server without speculation did not serve*"])


def test_a_base_that_speculates_is_7(
    write_profile: Write, run_gate: Run, served: tuple[str, Callable[[], bool]]
) -> None:
    profile = str(write_profile())
    run = run_gate("--eagle3-profile", profile, "--eagle3-compare-base", served[0])
    assert run.ret == 7
    run.stdout.fnmatch_lines(["*speculates itself (EAGLE3)*"])
