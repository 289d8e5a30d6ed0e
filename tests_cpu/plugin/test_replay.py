"""The replay as a stage of the gate, where it cannot be made; serve/ has one that can."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests_cpu.plugin.conftest import TINY, Write


def drafter_without_states(folder: Path) -> Path:
    """Return a drafter that takes no aux states, so that there are none to replay on."""
    shutil.copytree(TINY / "drafter", folder)
    config = json.loads((folder / "config.json").read_text())
    config["eagle_config"] = {"use_aux_hidden_state": False}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("asked", [True, False])
def test_why_there_is_none_is_told_where_one_was_asked_for(
    pytester: pytest.Pytester,
    write_profile: Write,
    run_gate: Callable[..., pytest.RunResult],
    asked: bool,  # noqa: FBT001
) -> None:
    drafter = drafter_without_states(pytester.path / "drafter")
    profile = write_profile(more='[replay]\nsource = "transformers"\n' if asked else "")
    words = ("--eagle3-draft", str(drafter), "--eagle3-keep-going", "--eagle3-json", "out.json")
    run = run_gate("--eagle3-profile", str(profile), *words, "-k", "ACC001")
    measured = json.loads((pytester.path / "out.json").read_text())["measurements"]
    assert "replayed" not in measured
    assert ("not_replayed" in measured) == asked
    if asked:
        assert "this drafter takes no aux states" in measured["not_replayed"]
        run.stdout.fnmatch_lines(["replay     it is not known which states the drafter takes*"])
