from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_checks.bisect.points import PointError, checkpoints, natural
from tests_cpu.bisect.conftest import Drafters


def names(*sources: str, as_given: bool = False) -> list[str]:
    return [point.name for point in checkpoints(sources, as_given=as_given)]


def test_a_pattern_is_in_natural_order(
    drafters: Drafters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafters(*[""] * 12)
    (tmp_path / "run" / "epoch-99").mkdir()  # no checkpoint
    monkeypatch.chdir(tmp_path)
    wanted = [f"epoch-{i}" for i in range(12)]
    assert names("run/epoch-*") == wanted
    by_shell = sorted(f"run/{name}" for name in wanted)
    assert names(*by_shell) == wanted
    assert names(*by_shell, as_given=True) == sorted(wanted)
    backwards = [f"run/{name}" for name in reversed(wanted)]
    assert names(*backwards) == wanted[::-1]


def test_hub_revisions_stay_as_written() -> None:
    sources = ["org/name@v1", "org/name@v10", "org/name@v9"]
    assert names(*sources, as_given=True) == sources
    assert checkpoints(sources)[0].overrides == {"drafter.path": "org/name@v1"}


def test_one_is_not_enough(drafters: Drafters) -> None:
    (only,) = drafters("")
    with pytest.raises(PointError, match="two drafters or more, and 1 is given"):
        checkpoints([str(only)])


def test_natural() -> None:
    assert sorted(["e10", "e9", "e1b", "e1a"], key=natural) == ["e1a", "e1b", "e9", "e10"]
