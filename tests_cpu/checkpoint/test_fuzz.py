from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.fuzz_headers import run


def test_damage_is_told_and_nothing_else_happens(
    tmp_path: Path, healthy_pair: Callable[..., tuple[Path, Path]]
) -> None:
    """A sample of what benchmarks/fuzz_headers.py does a hundred thousand times."""
    _, drafter = healthy_pair(tmp_path)
    tally = run(drafter, cases=5000, seed=7)
    assert tally.failures == []
    assert tally.cases == 5000
    assert tally.grown < 200e6
    assert {"not-json", "bad-header", "truncated", "clean"} <= set(tally.ends)
