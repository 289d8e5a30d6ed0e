"""`eagle3-checks compare` over results made from one healthy result."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from eagle3_checks.cli import main
from eagle3_checks.compare.changes import changes
from eagle3_checks.compare.explaining import compare
from tests_cpu.report.samples import dead, healthy, interval

Json = dict[str, Any]
Change = Callable[[Json], None]


def second(*edits: Change) -> Json:
    result = copy.deepcopy(healthy())
    result["environment"]["hardware"] = "NVIDIA B300"
    for edit in edits:
        edit(result)
    return result


def slower_drafts(result: Json) -> None:
    result["measurements"]["acceptance"]["accept_length"] = interval(2.3, 0.06)


def slower(result: Json) -> None:
    stream = result["measurements"]["throughput"]["streams"][0]
    stream["interval"] = interval(40.0, 1.0)


def other_drafter(result: Json) -> None:
    result["subject"]["hashes"]["drafter"] = "sha256-content:" + "6b" * 32


def setting(key: str, value: Any) -> Change:
    def edit(result: Json) -> None:
        result["profile"][key] = {"value": value, "origin": "command line"}

    return edit


def other_hardware(result: Json) -> None:
    result["environment"]["hardware"] = "NVIDIA H200"


def told(*edits: Change) -> dict[str, str]:
    found = compare(second(), second(*edits))
    return {e.kind: e.text for e in found.explanations}


def test_the_only_difference_explains_the_change() -> None:
    found = told(slower_drafts, other_drafter, other_hardware)
    assert found == {"acceptance": "drafter (hash), the only thing that differs and can move it"}


def test_hardware_explains_speed_and_not_acceptance() -> None:
    assert told(slower, other_hardware)["speed"].startswith("hardware, the only thing")
    assert told(slower_drafts, other_hardware)["acceptance"].startswith("nothing that the results")


def test_several_cannot_be_told_apart() -> None:
    found = told(slower_drafts, other_drafter, setting("speculation.steps", 5))
    assert found["acceptance"].startswith(
        "drafter (hash) and speculation.steps differ at once and cannot be told apart"
    )


def test_speed_goes_with_acceptance() -> None:
    found = told(slower_drafts, slower, other_drafter, other_hardware)
    assert found["speed"] == "it goes with the acceptance; besides, hardware can move it"


@pytest.mark.parametrize(
    ("key", "value"),
    [("drafter.path", "moved/here"), ("server.port", 1), ("floors.accept_length", 1.0)],
)
def test_what_moves_nothing_is_no_difference(key: str, value: object) -> None:
    base = second(setting(key, "x"))
    assert compare(base, second(setting(key, value))).differences == ()


@given(st.floats(1, 4), st.floats(0, 1), st.floats(1, 4), st.floats(0, 1))
def test_overlapping_intervals_are_no_change(a: float, da: float, b: float, db: float) -> None:
    first, other = second(), second()
    first["measurements"]["acceptance"]["accept_length"] = interval(a, da)
    other["measurements"]["acceptance"]["accept_length"] = interval(b, db)
    state = changes(first, other)[0].state
    overlap = a - da <= b + db and b - db <= a + da
    assert (state == "no change") == overlap
    assert overlap or (state == "higher") == (b > a)


def test_an_interval_without_an_end_tells_nothing() -> None:
    open_ended = second()
    open_ended["measurements"]["acceptance"]["accept_length"]["high"] = None
    assert changes(open_ended, second())[0].state == "cannot be told"


def write(place: Path, **results: Json) -> None:
    for name, result in results.items():
        (place / f"{name}.json").write_text(json.dumps(result))


def test_healthy_against_dead(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
) -> None:
    monkeypatch.chdir(tmp_path)
    broken = dead()
    setting("speculation.algorithm", "EAGLE")(broken)
    broken["measurements"]["prompts_sha256"] = "d4" * 32
    write(tmp_path, a=second(setting("speculation.algorithm", "EAGLE3")), b=broken)
    assert main(["compare", "a.json", "b.json", "--json", "out.json"]) == 1
    out = capsys.readouterr().out
    assert all(len(line) < 80 for line in out.splitlines())
    assert out == snapshot
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["changes"][0]["state"] == "lower"
    assert main(["compare", "a.json", "a.json"]) == 0
    assert "the intervals of every figure overlap" in capsys.readouterr().out


def test_nothing_in_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    empty = second()
    empty["measurements"] = {}
    write(tmp_path, a=second(), b=empty)
    assert main(["compare", "a.json", "b.json"]) == 7


HOLLOW = (
    '{"schema_version": 1, "subject": {}, "measurements": {"acceptance": 3}, '
    '"environment": {}, "profile": {}, "findings": []}'
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[]", "is no result of schema version 1"),
        ('{"schema_version": 2}', "is no result of schema version 1"),
        ("[" * 100_000, "is not JSON"),
        (HOLLOW, "is no whole result"),
    ],
    ids=["empty", "list", "version", "deep", "hollow"],
)
def test_what_is_no_result_is_told(
    text: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, a=second())
    (tmp_path / "b.json").write_text(text)
    assert main(["compare", "a.json", "b.json"]) == 2
    assert message in capsys.readouterr().err
    assert main(["compare", "a.json", "gone.json"]) == 2
    assert "gone.json: cannot be read: No such file" in capsys.readouterr().err
