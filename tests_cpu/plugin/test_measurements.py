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


def test_a_baseline_with_figures_no_run_has_is_7(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    words = ("--eagle3-profile", str(write_profile()), "--eagle3-baseline")
    run_gate(*words, "kept", "-k", "ACC005")
    (path,) = (pytester.path / "kept").iterdir()
    path.write_text(path.read_text().replace('"accept_length": 2.0', '"accept_length": 1e999'))
    run = run_gate(*words, str(path), "--eagle3-json", "out.json")
    assert run.ret == 7
    assert "is no baseline: ValueError: an accept length of inf" in message(pytester)
    assert "Traceback" not in run.stdout.str()


def test_a_named_baseline_that_is_not_there_is_7(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    words = ("--eagle3-baseline", "typo.json", "--eagle3-json", "out.json")
    assert run_gate("--eagle3-profile", str(write_profile()), *words).ret == 7
    assert "typo.json: cannot be read: [Errno 2] No such file" in message(pytester)
    assert not (pytester.path / "typo.json").exists()


def test_speed_is_compared_with_a_second_launch(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    profile = write_profile("--crowded")
    # A flag about speculation that has no place of its own in a profile: not for the base.
    own = '["--speculative-attention-mode", "decode", "--log-level", "info"]'
    text = profile.read_text().replace("start_timeout = 20", f"start_timeout = 20\nargs = {own}")
    profile.write_text(text)
    words = ("--eagle3-profile", str(profile), "--eagle3-compare-base")
    run = run_gate(*words, "--eagle3-json", "out.json", "--eagle3-html", "out.html")
    told = message(pytester, "SPD004")
    assert " at concurrency 2" in told
    assert "; measured again, speeds differ by " in told
    measured = json.loads((pytester.path / "out.json").read_text())["measurements"]["throughput"]
    for name in ("streams", "again", "base", "base_again"):
        assert [s["concurrency"] for s in measured[name]] == [1, 2], name
    alone, crowded = (u["ratio"]["value"] for u in measured["speed_ups"])
    assert alone > 1 > crowded  # 2 and 1/2 where the stand-in's own time were nothing
    assert 1 < measured["break_even"] < 2
    assert "From about 1." in (pytester.path / "out.html").read_text("utf-8")
    run.stdout.fnmatch_lines(["*speculation pays below about 1.* streams*"])
    log = (pytester.path / "eagle3-artefacts" / "base" / "server.log").read_text()
    assert "--log-level info" in log
    assert "--speculative" not in log


def test_speed_is_compared_with_a_server_that_runs(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run, served_plain: str
) -> None:
    profile = str(write_profile("--crowded", floors='speed_up = {"1" = 1.2, "2" = 0.2}'))
    words = ("--eagle3-profile", profile, "--eagle3-compare-base", served_plain)
    run_gate(*words, "--eagle3-json", "out.json")
    measured = json.loads((pytester.path / "out.json").read_text())["measurements"]["throughput"]
    assert [u["ratio"]["value"] > 1 for u in measured["speed_ups"]] == [True, False]
    assert not (pytester.path / "eagle3-artefacts" / "base").exists()


def test_a_base_that_does_not_serve_is_7(write_profile: Write, run_gate: Run) -> None:
    profile = str(write_profile())
    nowhere = "http://127.0.0.1:9"
    run = run_gate("--eagle3-profile", profile, "--eagle3-compare-base", nowhere)
    assert run.ret == 7
    run.stdout.fnmatch_lines(["*the server without speculation did not serve*"])


def test_a_base_that_ends_while_it_is_measured_is_7(
    write_profile: Write, run_gate: Run, served_plain_dying: str
) -> None:
    profile = str(write_profile("--crowded"))
    run = run_gate("--eagle3-profile", profile, "--eagle3-compare-base", served_plain_dying)
    assert run.ret == 7
    run.stdout.fnmatch_lines(["SPD005 *INCONCLUSIVE", "  no speed-up at concurrency 1: 0 of 8 *"])


def test_a_base_that_speculates_is_7(
    write_profile: Write, run_gate: Run, served: tuple[str, Callable[[], bool]]
) -> None:
    profile = str(write_profile())
    run = run_gate("--eagle3-profile", profile, "--eagle3-compare-base", served[0])
    assert run.ret == 7
    run.stdout.fnmatch_lines(["*speculates itself (EAGLE3)*"])
