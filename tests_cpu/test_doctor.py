from __future__ import annotations

import importlib.metadata
import io

import pytest

from eagle3_checks import doctor


def report() -> tuple[int, str]:
    out = io.StringIO()
    return doctor.examine(out), out.getvalue()


def test_a_machine_with_sglang_and_the_tiny_pair_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.5.23")
    code, text = report()
    assert code == 0
    assert "0.5.23, judged as 0.5.23; EAGLE-3 on the CPU engine" in text
    assert text.endswith("a gate can run here\n")
    assert max(map(len, text.splitlines())) <= 100


def test_without_sglang_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    code, text = report()
    assert code == 1
    assert "-> pip install 'eagle3-checks[sglang]'" in text
    assert text.endswith("a gate cannot run here yet\n")


@pytest.mark.parametrize("version", ["0.3.0", "nonsense"])
def test_a_version_that_cannot_be_judged(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    assert report()[0] == 1
