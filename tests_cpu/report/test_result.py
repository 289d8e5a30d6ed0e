from __future__ import annotations

import json
import math
import os
from dataclasses import fields
from pathlib import Path

import jsonschema
import pytest

from eagle3_checks.facts import Acceptance, Replayed, Stream, Throughput, Trial, Trials
from eagle3_checks.inspection import inspect
from eagle3_checks.report import result as module
from eagle3_checks.report.result import build_result, plain, redact_variable, write_json
from eagle3_checks.settings import resolve
from eagle3_checks.shipped import shipped
from eagle3_checks.verdict import Verdict
from tests_cpu.report import samples

SCHEMA = json.loads(Path(module.__file__).with_name("result.schema.json").read_text())
TINY = shipped("fixtures", "tiny")


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("folder", [str(TINY / "drafter"), "/nowhere"])
def test_inspect_fits_the_schema(folder: str) -> None:
    jsonschema.validate(inspect(folder, str(TINY / "target")), SCHEMA)


@pytest.mark.parametrize("name", ["dead", "healthy", "hostile", "not_run"])
def test_every_figure_fits_the_schema(name: str) -> None:
    jsonschema.validate(getattr(samples, name)(), SCHEMA)


def test_the_schema_knows_every_measurement() -> None:
    measured = SCHEMA["properties"]["measurements"]["properties"]
    known = SCHEMA["$defs"]
    assert measured["acceptance"] == {"$ref": "#/$defs/acceptance"}
    for kind, table in (
        (Acceptance, known["acceptance"]),
        (Replayed, measured["replayed"]),
        (Throughput, measured["throughput"]),
        (Stream, known["stream"]),
        (Trial, known["trial"]),
        (Trials, measured["trials"]),
    ):
        assert set(table["properties"]) == {f.name for f in fields(kind)}


def test_secrets_in_flags_and_addresses_are_masked() -> None:
    overrides = {
        "server.args": ("--api-key", "sk-very-secret", "--hf-token=hf_very_secret"),
        "server.url": "http://user:very-secret@host:1",
    }
    result = build_result(
        verdict=Verdict.NOT_RUN,
        findings=(),
        subject={"target": "t", "drafter": "d"},
        resolved=resolve("tiny", overrides, {}),
        reproduce="pytest -m gpu --eagle3-url http://user:very-secret@host:1",
    )
    text = json.dumps(result)
    assert "very-secret" not in text
    assert "very_secret" not in text
    assert "***@host:1" in result["reproduce"]


def test_a_profile_keeps_origins_and_hides_secrets() -> None:
    overrides = {"server.env": {"HF_TOKEN": "hf_secret", "NCCL_DEBUG": "WARN"}}
    result = build_result(
        verdict=Verdict.NOT_RUN,
        findings=(),
        subject={"target": "t", "drafter": "d"},
        resolved=resolve("tiny", overrides, {}),
    )
    jsonschema.validate(result, SCHEMA)
    assert result["profile"]["server.env"]["origin"] == "command line"
    assert result["profile"]["server.env"]["value"]["NCCL_DEBUG"] == "WARN"
    assert "hf_secret" not in json.dumps(result)


@pytest.mark.parametrize("name", ["API_KEY", "hf_token", "AWS_SECRET", "DB_PASSWORD"])
def test_redaction(name: str) -> None:
    assert redact_variable(name, "x") == "(redacted)"
    assert redact_variable("SGLANG_USE_CPU_ENGINE", "1") == "1"


def test_no_value_that_json_does_not_know() -> None:
    assert plain({"a": (1, 2.5, math.inf, math.nan), "b": Verdict.PASS, "c": Path("x")}) == {
        "a": [1, 2.5, None, None],
        "b": "pass",
        "c": "x",
    }


def test_writing_leaves_no_part_behind(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "out.json"
    write_json({"a": 1}, target)
    assert json.loads(target.read_text()) == {"a": 1}
    target.unlink()
    target.mkdir()
    with pytest.raises(OSError, match="no regular file"):
        write_json({"a": 1}, target)
    assert [p.name for p in target.parent.iterdir()] == ["out.json"]


def test_a_pipe_or_device_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no regular file"):
        write_json({"a": 1}, pipe)
    assert pipe.is_fifo()
