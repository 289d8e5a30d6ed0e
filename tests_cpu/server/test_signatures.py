from __future__ import annotations

import re
from pathlib import Path

import pytest

from eagle3_checks.server.signatures import SIGNATURES, symptoms

LOGS = Path(__file__).parent / "logs"
"""``NAME.log``: the end of a log of SGLang 0.5.23 that the signature NAME is for."""


def lines(name: str) -> list[str]:
    return (LOGS / f"{name}.log").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", [signature.name for signature in SIGNATURES])
def test_each_signature_is_found_in_its_log_alone(name: str) -> None:
    (found,) = symptoms(lines(name))
    assert found.signature.name == name
    assert found.line in {line.strip()[:300] for line in lines(name)}
    assert not found.line.startswith("raise ")
    assert str(found) == (f"{found.signature.cause}; {found.signature.fix} (log: {found.line})")


def test_a_healthy_log_has_no_symptom() -> None:
    assert symptoms(lines("healthy")) == ()


def test_every_log_belongs_to_a_signature() -> None:
    names = {path.stem for path in LOGS.glob("*.log")}
    assert names == {signature.name for signature in SIGNATURES} | {"healthy"}


def test_names_are_unique_and_texts_are_sentences_without_end() -> None:
    names = [signature.name for signature in SIGNATURES]
    assert len(set(names)) == len(names)
    for signature in SIGNATURES:
        assert re.fullmatch(r"[a-z0-9-]+", signature.name)
        assert not signature.cause.endswith(".")
        assert not signature.fix.endswith(".")


def test_several_symptoms_come_in_the_order_of_the_log() -> None:
    log = [
        "Exception: CUDA out of memory.",
        "x",
        "CUDA out of memory again",
        "address already in use",
    ]
    found = symptoms(log)
    assert [symptom.signature.name for symptom in found] == ["out-of-memory", "port-in-use"]
    assert found[0].line == "Exception: CUDA out of memory."


def test_source_text_in_a_traceback_is_no_symptom() -> None:
    assert symptoms(["    raise ValueError('CUDA out of memory')"]) == ()
