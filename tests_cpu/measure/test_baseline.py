from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.measure.baseline import BaselineError, Key, find, nearest, past, read, write

KEY = Key(
    target="tiny@1",
    drafter="sha256-content:ab",
    sglang="0.5.23",
    gpu="cpu",
    dtype="float32, quantization None",
    speculation="EAGLE3 3-1-4",
    prompts="cd raw 96",
)


def stored(folder: Path, key: Key = KEY, **changes: Any) -> Path:
    data = {
        "format": 1,
        "key": vars(key),
        "recorded": "2026-01-01T00:00:00+00:00",
        "accept_length": 2.0,
        "prompts": [["s", "p1", 100, 100], ["s", "p2", 50, 60]],
        "history": [{"recorded": "2026-01-01T00:00:00+00:00", "accept_length": 2.0}],
    } | changes
    path = folder / key.file
    path.write_text(json.dumps(data))
    return path


def test_a_folder_gives_the_one_of_the_same_key(tmp_path: Path) -> None:
    assert find(tmp_path, KEY) is None
    path = stored(tmp_path)
    kept = find(tmp_path, KEY)
    assert kept is not None
    assert kept.path == path
    assert kept.counts == {("s", "p1"): (100, 100), ("s", "p2"): (50, 60)}
    assert KEY.differences(kept.key) == ()
    assert find(tmp_path, replace(KEY, sglang="0.5.22")) is None


def test_a_file_is_taken_whatever_its_key_and_the_difference_told(tmp_path: Path) -> None:
    path = stored(tmp_path)
    other = replace(KEY, sglang="0.5.24", drafter="sha256-content:ef")
    kept = find(path, other)
    assert kept is not None
    assert other.differences(kept.key) == (
        "drafter: sha256-content:ab then, sha256-content:ef now",
        "sglang: 0.5.23 then, 0.5.24 now",
    )


def test_every_part_of_the_key_makes_another_file() -> None:
    files = {replace(KEY, **{name: "other"}).file for name in vars(KEY)}
    assert len(files | {KEY.file}) == len(vars(KEY)) + 1


def test_the_nearest_is_told_and_broken_ones_are_passed_over(tmp_path: Path) -> None:
    assert nearest(tmp_path, KEY) is None
    (tmp_path / "a.json").write_text("{")
    stored(tmp_path, replace(KEY, sglang="0.5.22", gpu="NVIDIA H200"))
    near = stored(tmp_path, replace(KEY, sglang="0.5.22"))
    assert nearest(tmp_path, KEY) == (near, ("sglang: 0.5.22 then, 0.5.23 now",))


def test_writing_adds_to_the_history_and_leaves_nothing_beside(tmp_path: Path) -> None:
    kept = read(stored(tmp_path))
    for number in range(3):
        write(read(kept.path), {"recorded": str(number)})
    again = read(kept.path)
    assert [entry["recorded"][:4] for entry in again.history] == ["2026", "0", "1", "2"]
    assert replace(again, history=kept.history) == kept
    assert [p.name for p in tmp_path.iterdir()] == [KEY.file]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "is no baseline: TypeError"),
        ('{"format": 2}', "format 2, but this version reads 1"),
        ('{"format": 1}', "is no baseline: KeyError: 'key'"),
        ('{"format": 1, "key": []}', "is no baseline: AttributeError"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_no_baseline(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(BaselineError, match=r"x\.json") as caught:
        read(path)
    assert says in str(caught.value)


def test_prompts_of_another_shape_are_no_baseline(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="is no baseline"):
        read(stored(tmp_path, prompts=[["s", "p", 1]]))


@pytest.mark.parametrize(
    "changes",
    [
        {"accept_length": float("nan")},
        {"accept_length": 0.5},
        {"prompts": [["s", "p", float("inf"), 3]]},
        {"prompts": [["s", "p", 5, -3]]},
        {"prompts": [["s", "p", 0, 3]]},
        {"prompts": [["s", "p", 5.5, 3]]},
        {"history": [{"accept_length": "x"}]},
        {"history": [{"low": float("inf")}]},
        {"history": [{"per_position": 5}]},
        {"history": [{"tokens_per_second": {"1": "fast"}}]},
        {"history": ["x"]},
    ],
)
def test_figures_that_no_run_has_are_no_baseline(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(BaselineError, match="is no baseline: "):
        read(stored(tmp_path, **changes))


def test_a_file_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"typo\.json: cannot be read: .*No such file"):
        find(tmp_path / "typo.json", KEY)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    kept = read(stored(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(BaselineError, match="cannot be written"):
        write(replace(kept, path=tmp_path / "file" / "x.json"))


def test_past_runs_know_their_sglang_and_come_in_order(tmp_path: Path) -> None:
    def entry(day: int) -> dict[str, Any]:
        return {"recorded": f"2026-01-{day:02}T00:00:00+00:00", "accept_length": 2.0}

    stored(tmp_path, replace(KEY, sglang="0.5.22"), history=[entry(1), entry(4)])
    stored(tmp_path, history=[entry(3), entry(2) | {"sglang": "told by the run"}])
    stored(tmp_path, replace(KEY, drafter="sha256-content:ef"), history=[entry(5)])
    found = [(e["recorded"][8:10], e["sglang"]) for e in past(tmp_path, KEY)]
    assert found == [
        ("01", "0.5.22"),
        ("02", "told by the run"),
        ("03", "0.5.23"),
        ("04", "0.5.22"),
    ]
    assert past(tmp_path / "nowhere", KEY) == ()


def test_shares_by_position_are_kept_and_may_be_absent(tmp_path: Path) -> None:
    assert read(stored(tmp_path)).per_position is None
    kept = replace(read(stored(tmp_path)), per_position=(0.6, 0.3))
    write(kept)
    assert read(kept.path).per_position == (0.6, 0.3)
    with pytest.raises(BaselineError, match="is no baseline"):
        read(stored(tmp_path, per_position=["much"]))
