"""`eagle3-checks replay`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from syrupy.assertion import SnapshotAssertion

from eagle3_checks import offline
from eagle3_checks.checkpoint.subject import Subject
from eagle3_checks.cli import main
from eagle3_checks.facts import Replayed, RequestSample
from eagle3_checks.measure.acceptance import summarise
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.profile import Profile, Speculation
from eagle3_checks.replaying import ReplayError
from eagle3_checks.report import result as module
from eagle3_checks.shipped import shipped

SCHEMA = json.loads(Path(module.__file__).with_name("result.schema.json").read_text())
TINY = shipped("fixtures", "tiny")
Main = Callable[..., int]


def sample(name: str) -> RequestSample:
    return RequestSample(
        prompt_id=name,
        prompt_set="s",
        prompt_tokens=9,
        completion_tokens=20,
        verify_steps=10,
        correct_drafts=10,
        proposed_drafts=30,
        histogram=(4, 3, 2, 1),
    )


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    """Run the command with a reference that answers at once."""

    def answer(profile: Profile, _: Any, __: Any, prompts: list[Prompt], *___: Any, **____: Any):  # type: ignore[no-untyped-def] # noqa: ANN202
        if profile.replay.source == "server":
            raise ReplayError("the server without a drafter did not serve: it is a test")
        return Replayed(
            source="transformers",
            acceptance=summarise([sample(p.id) for p in prompts], Speculation()),
        )

    monkeypatch.setattr(offline, "replay_profile", answer)
    monkeypatch.chdir(tmp_path)
    return lambda *words: main(["replay", *words])


def served(path: Path, **changes: Any) -> str:
    """Write what a gate over the tiny pair wrote, with changes at the top."""
    drafter = Subject(str(TINY / "drafter")).drafter_hash
    acceptance = module.plain(summarise([sample("a"), sample("b")], Speculation()))
    result = {
        "subject": {"hashes": {"drafter": drafter}},
        "measurements": {"acceptance": acceptance},
    }
    path.write_text(json.dumps(result | changes))
    return str(path)


def test_it_prints_replay_beside_served(
    replay: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    words = ("--profile", "tiny", "--prompts", "3", "--served", served(tmp_path / "gate.json"))
    assert replay(*words, "--json", "out.json") == 0
    out = capsys.readouterr().out
    assert all(len(line) < 80 for line in out.splitlines() if str(TINY) not in line)
    assert out.replace(str(TINY), "TINY") == snapshot
    written = json.loads((tmp_path / "out.json").read_text())
    jsonschema.validate(written, SCHEMA)
    assert written["verdict"] == "not-run"
    assert written["measurements"]["replayed"]["acceptance"]["prompts"] == 3
    assert written["measurements"]["acceptance"]["prompts"] == 2
    assert written["profile"]["replay.prompts"] == {"value": 3, "origin": "command line"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "no drafter was given: --profile FILE|NAME, or --draft and --target"),
        (("--profile", "nowhere"), 2, "no profile 'nowhere'"),
        (("--profile", "tiny", "--prompts", "-1"), 2, "replay.prompts: -1 is below"),
        (("--profile", "tiny", "--from", "server"), 1, "did not serve: it is a test"),
        (("--draft", "nowhere", "--target", "nowhere"), 1, "there is no such folder"),
        (("--profile", "tiny", "--served", "nowhere"), 1, "nowhere: No such file"),
    ],
)
def test_refusals(
    replay: Main, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, said: str
) -> None:
    assert replay(*words) == code
    error = capsys.readouterr().err
    assert error.startswith("eagle3-checks replay: ")
    assert said in error


def test_a_result_that_is_none_or_of_another_drafter_is_refused(
    replay: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gate.json"
    other = served(path, subject={"hashes": {"drafter": "sha256-content:1"}})
    assert replay("--profile", "tiny", "--served", other) == 1
    assert "it is of another drafter" in capsys.readouterr().err
    for measured in ({}, {"acceptance": None}, {"acceptance": {"verify_steps": 1}}):
        none = served(path, measurements=measured)
        assert replay("--profile", "tiny", "--served", none) == 1
        assert "no result of a gate that measured acceptance" in capsys.readouterr().err
    path.write_text("{")
    assert replay("--profile", "tiny", "--served", str(path)) == 1
    assert "no result of a gate" in capsys.readouterr().err
