from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from eagle3_checks.cli import main
from eagle3_checks.reference import defects
from eagle3_checks.reference.defects import DEFECTS, VARIANTS, Defect
from eagle3_checks.selftest import page
from eagle3_checks.selftest.matrix import ending, line, notes, summarise
from eagle3_checks.selftest.row import Row, served_row, static_row
from eagle3_checks.selftest.running import static_rows
from eagle3_checks.verdict import Cause, Confidence, Severity, Verdict
from tests_cpu.diagnosis.evidence import finding

SILENT, LOUD, HEALTHY = DEFECTS["fc-columns-rolled"], DEFECTS["fc-square"], VARIANTS["as-it-is"]
RIGHT = Cause(name="aux-order", code="ACC001", message="", fix="", confidence=Confidence.LIKELY)
WRONG = replace(RIGHT, name="rope")


@pytest.fixture(scope="module")
def matrix() -> tuple[Row, ...]:
    return tuple(static_rows((*VARIANTS.values(), *DEFECTS.values())))


def test_files_and_flags_show_what_they_must_and_no_more(matrix: tuple[Row, ...]) -> None:
    assert {row.name: row.problems for row in matrix if row.problems} == {}
    assert {row.name for row in matrix if row.wrong_cause} == set()


def test_the_page_is_current(matrix: tuple[Row, ...]) -> None:
    text = page.page(matrix, page.recorded())
    assert page.PAGE.read_text() == text, f"run `{page.COMMAND}`"


def test_the_record_is_of_rows_that_are_served_and_the_page_names_the_others() -> None:
    have = {row.name for row in page.recorded()}
    served = {p.name for p in (*DEFECTS.values(), *VARIANTS.values()) if p.served}
    assert have <= served
    text = page.PAGE.read_text()
    assert all(f"`{name}`" in text for name in served - have)


def test_what_was_recorded_is_good() -> None:
    summary = summarise(page.recorded(), DEFECTS)
    assert {row.name: row.problems for row in summary.bad} == {}
    assert summary.good
    silent = [n for n, d in DEFECTS.items() if d.silent and d.served]
    assert len(silent) >= 25


def test_a_missed_code_and_a_false_alarm_are_told() -> None:
    fired = (finding("FUS002"), finding("VOC005", Severity.WARNING))
    row = static_row(LOUD, fired, ())
    assert row.problems == ("no error FUS001", "no warning CFG020", "false error FUS002")
    alarm = static_row(HEALTHY, fired, ())
    assert alarm.problems == ("false error FUS002", "false warning VOC005")


def served(planted: defects.Planted, *causes: Cause, verdict: Verdict, fired: str = "") -> Row:
    findings = (finding(fired),) if fired else ()
    return served_row(planted, findings, causes, verdict, lengths=(1.2, None))


def test_a_served_defect_must_fail_with_its_code() -> None:
    assert served(SILENT, RIGHT, verdict=Verdict.FAIL, fired="ACC001").problems == ()
    missed = served(SILENT, RIGHT, verdict=Verdict.PASS)
    assert missed.problems == ("no error ACC001", "the verdict is pass")
    assert served(HEALTHY, verdict=Verdict.INCONCLUSIVE).problems == (
        "the verdict is inconclusive",
    )


def test_a_wrong_cause_counts_and_a_wrong_proof_is_a_fault() -> None:
    doubted = served(SILENT, WRONG, RIGHT, verdict=Verdict.FAIL, fired="ACC001")
    assert doubted.wrong_cause
    assert doubted.problems == ()
    sure = replace(WRONG, confidence=Confidence.PROVEN)
    assert served(SILENT, sure, verdict=Verdict.FAIL, fired="ACC001").problems == (
        "rope is named as proven",
    )


def test_nine_causes_in_ten_must_stand_first() -> None:
    good = served(SILENT, RIGHT, verdict=Verdict.FAIL, fired="ACC001")
    bad = replace(good, wrong_cause=True)
    assert summarise([good] * 9 + [bad], DEFECTS).good
    summary = summarise([good] * 8 + [bad] * 2, DEFECTS)
    assert not summary.good
    assert list(ending(summary))[-1] == "cause first in 8 of 10 served defects (80%)"
    assert "another cause" in next(notes(bad))


def test_lines_fit_a_terminal(matrix: tuple[Row, ...]) -> None:
    assert max(len(line(row)) for row in matrix) < 80


def test_one_row_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "-k", "d2t-zero"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ok   d2t-zero                  vocabulary proven         VOC002",
        "",
        "1 row, 0 with a miss or a false alarm",
    ]


def test_a_name_that_no_row_has_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "-k", "nothing"]) == 2
    assert "no row has 'nothing' in its name" in capsys.readouterr().err


def test_a_defect_that_nothing_catches_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blind: Mapping[str, Defect] = {"blind": replace(LOUD, name="blind", plant=HEALTHY.plant)}
    monkeypatch.setattr(defects, "DEFECTS", blind)
    assert main(["selftest", "-k", "blind"]) == 1
    out = capsys.readouterr().out
    assert "MISS blind" in out
    assert "no error FUS001" in out
