"""The published schema knows what is written of losslessness."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import eagle3_checks
from eagle3_checks.facts import Comparison, Divergence, Looping, Parity, RequestKind
from eagle3_checks.measure.kinds import ASKED
from eagle3_checks.report.result import plain

FILE = Path(eagle3_checks.__file__).with_name("report") / "result.schema.json"
SCHEMA: dict[str, Any] = json.loads(FILE.read_text())
MEASURED = SCHEMA["properties"]["measurements"]["properties"]
DIVERGENCE = Divergence(prompt_id="p", index=3, token=1, other=2, margin=None, floor=0.5)
RUN = Comparison(prompts=1, tokens=4, divergences=(DIVERGENCE,))


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (Parity, MEASURED["parity"]),
        (Looping, MEASURED["looping"]),
        (Comparison, SCHEMA["$defs"]["comparison"]),
        (Divergence, SCHEMA["$defs"]["comparison"]["properties"]["divergences"]["items"]),
        (RequestKind, MEASURED["parity"]["properties"]["kinds"]["items"]),
    ],
)
def test_every_field_is_known(kind: Any, schema: dict[str, Any]) -> None:
    assert set(schema["properties"]) == {f.name for f in fields(kind)}


def test_what_is_measured_fits() -> None:
    kinds = tuple(RequestKind(kind=kind, asked=asked) for kind, asked in ASKED)
    seen = Parity(
        dtype="float32", scored=RUN, again=RUN, together=RUN, concurrency=4, cached=RUN, kinds=kinds
    )
    jsonschema.validate(plain(seen), {**MEASURED["parity"], "$defs": SCHEMA["$defs"]})
    looping = Looping(prompts=1, characters=9, looping=3)
    jsonschema.validate(plain(looping), {**MEASURED["looping"], "$defs": SCHEMA["$defs"]})
