"""The probe's recorder."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


def test_line_says_who_speaks(facts: Any, tmp_path: Path) -> None:
    facts.recorder.emit("load", tensors=3)
    assert facts.lines() == [{"v": 1, "pid": os.getpid(), "rank": 0, "fact": "load", "tensors": 3}]
    assert (tmp_path / f"facts.{os.getpid()}.jsonl").exists()


def test_same_fact_is_written_once(facts: Any) -> None:
    for width in (192, 64, 192, 192):
        facts.recorder.emit("forward", width=width)
    assert [line["width"] for line in facts.lines()] == [192, 64]


def test_file_is_appended_to(facts: Any, probe: Any, tmp_path: Path) -> None:
    facts.recorder.emit("hello", run=1)
    probe.record.Recorder(str(tmp_path / "facts")).emit("hello", run=2)
    assert [line["run"] for line in facts.of("hello")] == [1, 2]


def test_forked_process_writes_its_own_file(facts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    facts.recorder.emit("hello")
    monkeypatch.setattr(os, "getpid", lambda: 4242)
    facts.recorder.emit("hello")
    assert 4242 in [line["pid"] for line in facts.of("hello")]
    assert len(facts.lines()) == 2


def test_rank_is_the_tensor_parallel_rank(facts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    parallel_state = SimpleNamespace(get_tensor_model_parallel_rank=lambda: 3)
    monkeypatch.setitem(
        __import__("sys").modules, "sglang.srt.distributed.parallel_state", parallel_state
    )
    facts.recorder.emit("hello")
    assert facts.only("hello")["rank"] == 3


def test_error_of_the_probe_becomes_a_fact(facts: Any) -> None:
    with facts.recorder.guard("fc"):
        raise ValueError("no such width")
    (line,) = facts.of("error")
    assert line["where"] == "fc"
    assert line["error"] == "ValueError: no such width"


@pytest.mark.parametrize("field", [object(), 1])
def test_never_raises(probe: Any, tmp_path: Path, field: Any) -> None:
    probe.record.Recorder(str(tmp_path / "no" / "such" / "folder")).emit("hello", field=field)
    assert not list(tmp_path.iterdir())
