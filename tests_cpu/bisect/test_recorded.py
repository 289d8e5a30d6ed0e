"""Twenty bisects over counts that the real server gave, and one over the real server itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.bisect import COUNT, FAULTS, HEALTHY, SMALL, load, rounds, write_drafter
from eagle3_checks.cli import main


def test_right_in_twenty_of_twenty() -> None:
    seen = list(rounds(load(), list(FAULTS)))
    assert seen == [(True, True)] * 20


def test_a_small_fault_is_named_or_not_told_but_never_mistaken() -> None:
    seen = list(rounds(load(), [SMALL]))
    assert all(allowed for _, allowed in seen)
    assert any(named for named, _ in seen)


@pytest.mark.slow
@pytest.mark.serve
@pytest.mark.timeout(1500)
def test_sixteen_on_the_real_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place, fault = 6, "three in ten rows of the head lost"
    for number in range(COUNT):
        write_drafter(
            tmp_path / f"epoch-{number}", number % len(HEALTHY), fault if number >= place else ""
        )
        config = tmp_path / f"epoch-{number}" / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"epoch": number}))
    assert (
        main(["bisect", "checkpoints", "epoch-*", "--profile", "tiny", "--json", "out.json"]) == 0
    )
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["before"], found["after"]) == ("epoch-5", "epoch-6")
    assert found["launches"] <= 7
