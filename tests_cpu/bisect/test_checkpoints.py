"""`bisect checkpoints` over drafters that a stand-in serves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from eagle3_checks.cli import main
from tests_cpu.bisect.conftest import Drafters

GOOD, BAD = "--histogram 4,3,2,1", "--histogram 40,1,0,0"
UNABLE = "--exits 3"


def result(place: Path) -> dict[str, Any]:
    data = json.loads((place / "out.json").read_text())
    assert isinstance(data, dict)
    return data


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words(profile: Path, *more: str) -> list[str]:
    pattern = ["bisect", "checkpoints", "run/epoch-*", "--profile", str(profile)]
    return [*pattern, "--json", "out.json", *more]


def test_sixteen(
    place: Path,
    stand_in: Path,
    drafters: Drafters,
    capsys: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
) -> None:
    drafters(*[GOOD] * 11, *[BAD] * 5)
    assert main(words(stand_in, "--html", "page.html")) == 0
    found = result(place)
    assert (found["before"], found["after"], found["exact"]) == ("epoch-10", "epoch-11", True)
    assert found["launches"] == 7
    sent = {p["name"]: p["measured"][0]["prompts"] for p in found["points"] if p["measured"]}
    assert (sent["epoch-0"], sent["epoch-7"]) == (8, 4)  # the ends get all that there are
    out = capsys.readouterr().out
    assert all(len(line) < 80 for line in out.splitlines())
    assert out == snapshot
    page = (place / "page.html").read_text()
    assert page.count("<circle") == 7
    assert "epoch-11, confirmed by a second measurement" in page
    assert "http" not in page

    assert main(words(stand_in)) == 0  # nothing is measured twice
    assert (result(place)["launches"], result(place)["kept"]) == (0, 7)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let children heed SIGINT although a shell's `&` may have it ignored, which is inherited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_one_goes_on(place: Path, stand_in: Path, drafters: Drafters) -> None:
    drafters(*[GOOD] * 3, *[BAD] * 13)
    command = [sys.executable, "-m", "eagle3_checks", *words(stand_in)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told = [process.stderr.readline() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=60)
    assert process.returncode == 130, out + rest
    assert "the same command goes on from here" in rest
    assert [line.split()[0] for line in told] == ["epoch-0", "epoch-15", "epoch-7"]
    assert not (place / "out.json").exists()
    assert main(words(stand_in)) == 0
    found = result(place)
    assert found["after"] == "epoch-3"
    assert found["kept"] >= 3
    assert found["launches"] + found["kept"] == 7


def test_a_server_that_does_not_start_leaves_a_range(
    place: Path,
    stand_in: Path,
    drafters: Drafters,
    capsys: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
) -> None:
    drafters(GOOD, GOOD, UNABLE, BAD, BAD)
    assert main(words(stand_in)) == 7
    found = result(place)
    assert (found["before"], found["after"], found["exact"]) == ("epoch-1", "epoch-3", False)
    assert found["skipped"] == ["epoch-2"]
    assert capsys.readouterr().out == snapshot


def test_ends_that_are_alike(
    place: Path, stand_in: Path, drafters: Drafters, capsys: pytest.CaptureFixture[str]
) -> None:
    drafters(GOOD, BAD, GOOD)
    assert main(words(stand_in)) == 7
    assert "the ends do not differ by accept length" in " ".join(capsys.readouterr().out.split())
    assert main(words(stand_in, "--threshold", "1.5")) == 7
    assert "both ends are good by accept length" in capsys.readouterr().out
    assert result(place)["kept"] == 2


def test_what_became_better_is_found_too(
    place: Path, stand_in: Path, drafters: Drafters, capsys: pytest.CaptureFixture[str]
) -> None:
    drafters(BAD, BAD, GOOD)
    assert main(words(stand_in, "--by", "position:1")) == 0
    assert (result(place)["direction"], result(place)["after"]) == ("better", "epoch-2")
    assert "first good epoch-2" in capsys.readouterr().out


def test_a_rule_about_files_launches_nothing(
    place: Path, stand_in: Path, drafters: Drafters, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = drafters(*[GOOD] * 12)
    for folder in folders[9:]:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 7}))
    assert main(["inspect", str(folders[9]), "--format", "json"]) == 1
    failed = json.loads(capsys.readouterr().out)["findings"]
    code = next(f["code"] for f in failed if f["status"] == "fail" and f["severity"] == "error")
    assert main(words(stand_in, "--by", code)) == 0
    found = result(place)
    assert (found["after"], found["launches"]) == ("epoch-9", 0)
    assert not (place / "eagle3-artefacts" / "bisect" / "launches").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["nothing-*"], "nothing-*: no folder with a config.json is called so"),
        (["run/epoch-0"], "a bisect takes two drafters or more"),
        (["run/epoch-0", "gone"], "gone: no such folder"),
        (["run/epoch-0", "run/epoch-1", "--by", "speed"], "--by speed: it must be accept-length"),
        (["run/epoch-0", "run/epoch-1", "--profile", "none"], "no profile 'none'"),
    ],
)
def test_usage(
    place: Path,
    drafters: Drafters,
    capsys: pytest.CaptureFixture[str],
    given: list[str],
    told: str,
) -> None:
    drafters(GOOD, BAD)
    assert main(["bisect", "checkpoints", *given]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["bisect", "checkpoints", "run/*"], ["sweep", "--draft", "run/epoch-0"]]
)
def test_an_attached_server_serves_one_drafter_alone(
    place: Path,
    drafters: Drafters,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
) -> None:
    drafters(GOOD, BAD)
    monkeypatch.setenv("EAGLE3_CHECKS_URL", "http://127.0.0.1:1")
    assert main(words) == 2
    assert "server.url is set (http://127.0.0.1:1)" in capsys.readouterr().err
