"""The selftest's served rows, on the real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_checks.reference.defects import DEFECTS, VARIANTS
from eagle3_checks.selftest.matrix import summarise
from eagle3_checks.selftest.page import recorded
from eagle3_checks.selftest.row import Row
from eagle3_checks.selftest.running import served_rows

NEAR = 0.15
"""How far accept lengths may be from the record, where a run ends earlier or later."""


def test_a_silent_defect_is_caught_and_its_cause_is_named(tmp_path: Path) -> None:
    (row,) = served_rows([DEFECTS["fc-columns-reversed"]], tmp_path)
    assert row.problems == ()
    assert (row.verdict, row.cause, row.confidence) == ("fail", "aux-order", "proven")
    assert row.accept_length is not None
    assert row.replayed is not None
    assert row.accept_length < 1.7
    assert abs(row.accept_length - row.replayed) < NEAR


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_served_matrix_is_good_and_as_recorded(tmp_path: Path) -> None:
    zoo = [p for p in (*VARIANTS.values(), *DEFECTS.values()) if p.served]
    rows = {row.name: row for row in served_rows(zoo, tmp_path)}
    summary = summarise(rows.values(), DEFECTS)
    assert {row.name: row.problems for row in summary.bad} == {}
    assert summary.good
    for old in recorded():
        assert told(rows[old.name]) == told(old), old.name
        for one, other in (
            (rows[old.name].accept_length, old.accept_length),
            (rows[old.name].replayed, old.replayed),
        ):
            assert one == other or abs((one or 0) - (other or 0)) < NEAR, old.name


def told(row: Row) -> tuple[object, ...]:
    return row.verdict, row.errors, row.cause
