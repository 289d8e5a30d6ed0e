"""`bisect sglang`: by the files, and over interpreters whose servers are stand-ins."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from eagle3_checks.bisect.points import PointError
from eagle3_checks.bisect.versions import changes, first_change, spans, versions
from eagle3_checks.cli import main
from eagle3_checks.contract.version import known_versions
from eagle3_checks.reference.defects import DEFECTS
from tests_cpu.bisect.conftest import FAKE, TINY


def interpreter(place: Path, version: str, histogram: str, says: str = "") -> str:
    """Write an interpreter that has a release: a stand-in. Return the words that give it."""
    path = place / f"python-{version}"
    words = f"--says-version {says or version} --histogram {histogram}"
    path.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} {FAKE} {words} "$@"\n')
    path.chmod(0o755)
    return f"--python={version}={path}"


@pytest.fixture
def tiny(stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the words of a bisect of the tiny pair, each release by its own interpreter."""
    monkeypatch.chdir(tmp_path)
    text = stand_in.read_text()
    kept = [line for line in text.splitlines() if not line.startswith("command")]
    stand_in.write_text("\n".join(kept))
    more = ["--profile", str(stand_in), "--draft", str(TINY / "drafter"), "--json", "out.json"]
    return ["bisect", "sglang", "0.5.19", "0.5.23", *more]


def test_the_first_bad_release_is_named(
    tiny: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
) -> None:
    good, bad = "4,3,2,1", "40,1,0,0"
    given = [interpreter(tmp_path, v, good) for v in ("0.5.19", "0.5.20")]
    given += [interpreter(tmp_path, v, bad) for v in ("0.5.21", "0.5.22", "0.5.23")]
    assert main([*tiny, *given]) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["before"], found["after"], found["launches"]) == ("0.5.20", "0.5.21", 5)
    assert capsys.readouterr().out == snapshot


def test_a_server_of_another_release_tells_nothing(
    tiny: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [interpreter(tmp_path, v, "1,1", says="0.5.23") for v in ("0.5.22", "0.5.23")]
    assert main([*tiny[:2], "0.5.22", "0.5.23", *tiny[4:], *given]) == 7
    told = " ".join(capsys.readouterr().out.split())
    assert "0.5.22 cannot be told: the server says that it is SGLang 0.5.23, not 0.5.22" in told


def test_by_the_files_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
) -> None:
    DEFECTS["layers-named"].plant(TINY, tmp_path / "pair")
    monkeypatch.chdir(tmp_path)
    words = ["bisect", "sglang", "0.5.9", "0.5.13", "--profile", "tiny", "--draft", "pair/drafter"]
    assert main([*words, "--json", "out.json"]) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["before"], found["after"], found["launches"]) == ("0.5.11", "0.5.12", 0)
    out = capsys.readouterr().out
    assert all(len(line) < 80 for line in out.splitlines())
    assert out == snapshot
    assert main([*words, "--by", "KEY001", "--json", "out.json"]) == 0
    assert json.loads((tmp_path / "out.json").read_text())["after"] == "0.5.12"
    healthy = [*words[:4], "--profile", "tiny", "--files-only"]
    assert main(healthy) == 7


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["0.5.23"], "two versions or more"),
        (["0.5.22", "new"], "write versions as in"),
        (["0.5.22", "0.5.23"], "no drafter is given"),
        (["0.5.22", "0.5.23", "--draft", "d", "--python", "0.5.22=/no"], "no interpreter at /no"),
        (["0.5.22", "0.5.23", "--draft", "d", "--python", "/usr/bin/python3"], "write it as in"),
    ],
)
def test_usage(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", "sglang", *words]) == 2
    assert told in capsys.readouterr().err


def test_two_ends_take_in_what_lies_between() -> None:
    assert versions(["0.5.23", "0.5.20"]) == ("0.5.20", "0.5.21", "0.5.22", "0.5.23")
    assert versions(["0.5.9", "0.5.23", "0.5.12"]) == ("0.5.9", "0.5.12", "0.5.23")
    with pytest.raises(PointError, match=r"older than"):
        versions(["0.1", "0.5.23"])


def test_what_turns_twice_is_no_change_of_the_ends() -> None:
    assert first_change({"1": (), "2": ("A",), "3": ("A",)}) == ("1", "2")
    assert first_change({"1": ("A",), "2": ("B",), "3": ()}) == ("2", "3")
    assert first_change({"1": (), "2": ("A",), "3": ()}) is None
    assert spans({"1": (), "2": ("A",), "3": ("A",)}) == [("1", "1", ()), ("2", "3", ("A",))]


def test_what_changed_between_two_releases() -> None:
    found = changes("0.5.11", "0.5.12")
    assert "llama.layer_module: midlayer, then layers" in found
    assert "llama.renames: now with midlayer -> layers.0" in found
    assert changes("0.5.22", "0.5.22") == []
    told = changes("0.5.9", "0.5.10", "KimiK25ForConditionalGeneration")
    assert any(line.startswith("targets.KimiK25ForConditionalGeneration: ") for line in told)
    assert all(changes(a, b) is not None for a in known_versions()[:1] for b in known_versions())
