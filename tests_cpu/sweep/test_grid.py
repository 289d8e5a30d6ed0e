from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.cli import main
from eagle3_checks.settings import resolve
from eagle3_checks.shipped import shipped
from eagle3_checks.sweep import pool
from eagle3_checks.sweep.grid import Axes, GridError, Trial, trials
from eagle3_checks.sweep.table import Row, best, lines

DRAFTER = str(shipped("fixtures", "tiny") / "drafter")


def specs(axes: Axes) -> tuple[list[str], tuple[str, ...]]:
    found, left_out = trials(axes, "tiny", {}, resolve)
    return [trial.speculation for trial in found], left_out


def test_chains_have_one_draft_token_a_step() -> None:
    assert specs(Axes(steps=(1, 3, 5)))[0] == ["1-1-2", "3-1-4", "5-1-6"]


def test_trees_take_the_draft_tokens_and_leave_out_what_does_not_fit() -> None:
    found, left_out = specs(Axes(steps=(1, 3), topk=(1, 4), draft_tokens=(4, 8)))
    assert found == ["1-1-2", "1-4-4", "3-1-4", "3-4-4", "3-4-8"]
    assert len(left_out) == 1
    assert left_out[0].startswith("1-4-8: ")
    assert "more than the tree holds" in left_out[0]


def test_releases_bring_their_own_settings() -> None:
    releases = {"0.5.22": {"server.sglang": "0.5.22"}, "0.5.23": {"server.sglang": "0.5.23"}}
    found, _ = trials(Axes(releases=releases), "tiny", {}, resolve)
    assert [trial.sglang for trial in found] == ["0.5.22", "0.5.23"]
    assert len({trial.id for trial in found}) == 2


def test_the_same_trial_has_the_same_name() -> None:
    first, _ = trials(Axes(), "tiny", {}, resolve)
    again, _ = trials(Axes(drafters=(DRAFTER,), steps=(3,)), "tiny", {}, resolve)
    assert first[0].id == again[0].id


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (Axes(topk=(4,)), "topk 4 makes trees: say how large"),
        (Axes(drafters=("/gone",)), "/gone: its files cannot be read"),
        (Axes(steps=(1,), topk=(4,), draft_tokens=(9,)), "no combination is left: 1-4-9: "),
    ],
)
def test_what_gives_no_grid_is_told(axes: Axes, message: str) -> None:
    with pytest.raises(GridError, match=message):
        trials(axes, "tiny", {}, resolve)


def row(name: str, speeds: dict[int, tuple[float, float]], family: str = "") -> Row:
    trial = Trial(
        id=name, profile=None, overrides={}, drafter=f"run/{name}", speculation="3-1-4", sglang=""
    )
    streams = [
        {"concurrency": c, "interval": {"value": v, "low": v - half, "high": v + half}}
        for c, (v, half) in speeds.items()
    ]
    errors = [{"status": "fail", "severity": "error", "family": family}] if family else []
    result: dict[str, Any] = {
        "verdict": "fail" if family else "pass",
        "findings": errors,
        "measurements": {"throughput": {"streams": streams}},
    }
    return Row(trial=trial, result=result)


def test_the_best_is_sound_and_names_what_is_alike() -> None:
    rows = [
        row("a", {1: (100, 5), 8: (400, 1)}),
        row("b", {1: (104, 5), 8: (300, 1)}),
        row("c", {1: (300, 5)}, family="WIR"),
        row("d", {1: (80, 5), 8: (500, 1)}, family="SPD"),
    ]
    found = {b.concurrency: (b.row.trial.id, [r.trial.id for r in b.alike]) for b in best(rows)}
    assert found == {1: ("b", ["a"]), 8: ("d", [])}
    assert all(len(line) < 80 for line in lines(rows))


@given(st.lists(st.tuples(st.floats(1, 1000), st.floats(0, 50)), min_size=1, max_size=6))
def test_nothing_is_faster_than_the_best(speeds: list[tuple[float, float]]) -> None:
    rows = [row(str(i), {1: speed}) for i, speed in enumerate(speeds)]
    (found,) = best(rows)
    assert found.speed["value"] == max(value for value, _ in speeds)
    clear = [r for r in rows if r is not found.row and r not in found.alike]
    assert all(r.speeds[1]["high"] < found.speed["low"] for r in clear)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "no drafter is given"),
        (["--profile", "tiny", "--topk", "4"], "say how large"),
        (["--profile", "none"], "no profile 'none'"),
        (["--profile", "tiny", "--python", "x"], "write it as in --python"),
    ],
)
def test_usage(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", *words]) == 2
    assert told in capsys.readouterr().err


def test_without_ray_it_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["sweep", "--profile", "tiny", "--out", str(tmp_path / "out")]) == 2
    assert pool.HOW_TO_INSTALL in capsys.readouterr().err


def test_trials_that_no_slot_can_take_are_refused() -> None:
    def seeing(gpus: float) -> SimpleNamespace:
        return SimpleNamespace(cluster_resources=lambda: {"CPU": 2.0, "GPU": gpus} if gpus else {})

    pool._require(seeing(8), pool.Slots(gpus=8))
    pool._require(seeing(0), pool.Slots())
    with pytest.raises(pool.SlotError, match=r"takes 8 GPUs .* Ray sees 4; .* --device cpu"):
        pool._require(seeing(4), pool.Slots(gpus=8))


def test_a_result_that_was_damaged_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (trial,), _ = trials(Axes(), "tiny", {"baseline.path": ""}, resolve)
    damaged = tmp_path / "results" / f"{trial.id}.json"
    damaged.parent.mkdir()
    damaged.write_text("{")
    assert main(["sweep", "--profile", "tiny", "--out", str(tmp_path)]) == 2
    assert f"{damaged}: is no result; remove it" in capsys.readouterr().err
