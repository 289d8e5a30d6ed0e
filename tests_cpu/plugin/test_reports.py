"""JUnit properties, the HTML page and GitHub's files, by running pytest in pytest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from tests_cpu.report.test_html import Outline
from tests_cpu.report.test_result import SCHEMA

Run = Callable[..., pytest.RunResult]
Write = Callable[..., Path]
BOTH = pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["alone", "xdist"])
LOW = "accept_length = 2.5"


def properties(element: ET.Element) -> dict[str, str]:
    found = element.find("properties")
    return {} if found is None else {p.attrib["name"]: p.attrib["value"] for p in found}


def suite_of(pytester: pytest.Pytester) -> ET.Element:
    root = ET.parse(pytester.path / "junit.xml").getroot()  # noqa: S314 - written by this test
    (suite,) = root.iter("testsuite")
    return suite


@BOTH
def test_junit_holds_every_finding(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run, words: tuple[str, ...]
) -> None:
    profile = write_profile(floors=LOW)
    assert run_gate("--eagle3-profile", str(profile), "--junitxml", "junit.xml", *words).ret == 1
    suite = suite_of(pytester)
    cases = {c.attrib["name"]: properties(c) for c in suite.iter("testcase")}
    low = cases["test_acceptance[ACC001]"]
    assert (low["eagle3.code"], low["eagle3.status"]) == ("ACC001", "fail")
    assert (low["eagle3.severity"], low["eagle3.floor"]) == ("error", "2.5")
    assert float(low["eagle3.measured"]) == pytest.approx(2.0)
    assert low["eagle3.message"].startswith("accept length 2.00")
    assert all(f"[{found['eagle3.code']}]" in name for name, found in cases.items())
    assert cases["test_fusion_width[FUS001]"]["eagle3.status"] == "pass"
    whole = properties(suite)
    assert whole["eagle3.verdict"] == "fail"
    assert whole["eagle3.causes"] == "ACC001"
    assert float(whole["eagle3.accept_length"]) == pytest.approx(2.0)


def test_junit_knows_the_verdict_of_a_run_that_stops_early(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    words = ("--eagle3-profile", str(write_profile(floors=LOW)), "--junitxml", "junit.xml", "-x")
    assert run_gate(*words).ret == 1
    assert properties(suite_of(pytester))["eagle3.verdict"] == "fail"


def test_junit_of_other_sessions_is_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_other(): pass")
    assert pytester.runpytest_inprocess("--junitxml", "junit.xml").ret == 0
    assert properties(suite_of(pytester)) == {}


@BOTH
def test_the_page_is_written(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run, words: tuple[str, ...]
) -> None:
    profile = write_profile(floors=LOW)
    page = ("--eagle3-html", "out/report.html")
    run = run_gate("--eagle3-profile", str(profile), *page, *words)
    assert run.ret == 1
    run.stdout.fnmatch_lines(["page       out/report.html"])
    text = (pytester.path / "out" / "report.html").read_text("utf-8")
    outline = Outline(text)
    assert "positions" in outline.figures()
    assert f"pytest -m gpu -k ACC001 --eagle3-profile {profile}" in outline.texts


def test_past_runs_become_a_trend(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    profile = write_profile(more="[judging]\nmargin = 0.3\n")
    words = ("--eagle3-profile", str(profile), "--eagle3-baseline", "baselines")
    reports = ("--eagle3-html", "r.html", "--eagle3-json", "r.json")
    figures = []
    for _ in range(2):
        assert run_gate(*words, *reports).ret == 0
        result = json.loads((pytester.path / "r.json").read_text())
        jsonschema.validate(result, SCHEMA)
        text = (pytester.path / "r.html").read_text("utf-8")
        figures.append((len(result["measurements"].get("history", ())), "Trend" in text))
    assert figures == [(0, False), (1, True)]


def test_the_page_needs_its_extra(
    pytester: pytest.Pytester, write_profile: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pytester.path / "jinja2.py").write_text("raise ImportError('told to be missing')\n")
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    words = ("-m", "gpu", "--eagle3-profile", str(write_profile()), "--eagle3-html", "r.html")
    run = pytester.runpytest_subprocess(*words)
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["*--eagle3-html*jinja2: pip install 'eagle3-checks?report?'*"])


@BOTH
def test_github_gets_annotations_and_a_summary(
    pytester: pytest.Pytester,
    write_profile: Write,
    run_gate: Run,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    summary = pytester.path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
    monkeypatch.setenv("EAGLE3_CHECKS_API_KEY", "sk-never-in-a-report-0123456789")
    profile = write_profile(floors=LOW, more='[server.env]\nHF_TOKEN = "hf_never_in_a_report"\n')
    run = run_gate("--eagle3-profile", str(profile), *words)
    assert run.ret == 1
    run.stdout.re_match_lines(
        [r"::error title=ACC001 .*,file=profile\.toml,line=\d+::measured: .*"]
    )
    assert run.stdout.str().count("::error") == 1
    first = [line for line in run.outlines if line.startswith("::")]
    assert first[0].startswith("::stop-commands::")
    assert first[1] == f"::{first[0].rpartition(':')[2]}::"
    text = summary.read_text("utf-8")
    assert text.count("## EAGLE-3 gate: fail") == 1
    assert "| fail | ACC001 |" in text
    assert "never" not in text + run.stdout.str()


def test_a_summary_that_cannot_be_written_changes_no_verdict(
    pytester: pytest.Pytester,
    write_profile: Write,
    run_gate: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path))
    run = run_gate("--eagle3-profile", str(write_profile()))
    assert run.ret == 0
    run.stdout.fnmatch_lines(["::notice title=*", "no step summary: *"])


def test_elsewhere_github_is_not_spoken_to(
    pytester: pytest.Pytester,
    write_profile: Write,
    run_gate: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    summary = pytester.path / "summary.md"
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    run = run_gate("--eagle3-profile", str(write_profile(floors=LOW)))
    run.stdout.no_fnmatch_line("::error*")
    assert not summary.exists()
