"""`eagle3-checks repackage`: report and exit codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from eagle3_checks.cli import main

Pair = Callable[..., tuple[Path, Path]]


@pytest.fixture
def place(tmp_path: Path, healthy_pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder that holds a healthy pair."""
    healthy_pair(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_fixed(
    tmp_path: Path,
    healthy_pair: Pair,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
) -> None:
    _, drafter = healthy_pair(
        tmp_path, layer="layers.0", draft={"architectures": ["Eagle3DraftModel"]}
    )
    (drafter / "optimizer.pt").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["repackage", "drafter", "fixed", "--sglang", "0.5.9"]) == 0
    out = capsys.readouterr().out
    assert all(len(line) < 80 for line in out.splitlines())
    assert out == snapshot
    assert main(["inspect", "fixed", "--sglang", "0.5.9"]) == 0


def test_refused(
    tmp_path: Path,
    healthy_pair: Pair,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
) -> None:
    healthy_pair(
        tmp_path,
        draft={"tie_word_embeddings": True, "draft_vocab_size": 128},
        tensors={"lm_head.weight": ("BF16", (128, 16), None), "d2t": ..., "t2d": ...},
    )
    monkeypatch.chdir(tmp_path)
    assert main(["repackage", "drafter", "fixed"]) == 1
    assert capsys.readouterr().out == snapshot
    assert not (tmp_path / "fixed").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("drafter", "drafter"), "is there already"),
        (("nothing", "out"), "no such folder, and it is no hub id"),
        (("drafter", "out", "--sglang", "x"), "is not a version"),
        (("drafter", "drafter/out"), "lies in drafter"),
    ],
)
def test_usage(
    place: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    assert main(["repackage", *words]) == 2
    assert says in capsys.readouterr().err
