from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.facts import CaptureSeen, ForwardSeen, LoadedTensor, LoadSeen
from eagle3_checks.server.probe_facts import read_wiring

HELLO = {"fact": "hello", "sglang": "0.5.23"}
LOAD = {
    "fact": "load",
    "class": "LlamaForCausalLMEagle3",
    "tensors": [
        {"name": "fc.weight", "shape": [64, 192], "dtype": "float32", "into": ["model.fc.weight"]},
        {"name": "t2d", "shape": [256], "dtype": "bool", "into": []},
    ],
    "parameters": [{"name": "model.fc.weight", "shape": [64, 192]}],
    "unwritten": ["model.embed_tokens.weight"],
}
SHARED = {
    "fact": "shared",
    "class": "LlamaForCausalLMEagle3",
    "parameters": ["model.embed_tokens.weight"],
}
FORWARD = {
    "fact": "forward",
    "class": "LlamaModel",
    "mode": "EXTEND",
    "mode_value": 1,
    "width": 192,
    "embed_width": 64,
    "fc_ran": True,
    "fc_in": 192,
    "fc_out": 64,
    "capturing": False,
}
SKIPPED = {**FORWARD, "mode": "DECODE", "width": 64, "fc_ran": False, "fc_in": None, "fc_out": None}
CAPTURE = {"fact": "capture", "class": "LlamaForCausalLM", "layers": [2, 4, 5]}


def write(tmp_path: Path, pid: int, *facts: dict[str, Any], rank: int = 0, rest: str = "") -> Path:
    lines = [json.dumps({"v": 1, "pid": pid, "rank": rank, **fact}) + "\n" for fact in facts]
    (tmp_path / f"probe.{pid}.jsonl").write_text("".join(lines) + rest, encoding="utf-8")
    return tmp_path / "probe"


def test_all_facts_of_all_processes_are_read(tmp_path: Path) -> None:
    write(tmp_path, 10, HELLO)
    prefix = write(tmp_path, 11, HELLO, CAPTURE, LOAD, SHARED, FORWARD, SKIPPED, FORWARD)
    wiring = read_wiring(prefix)
    assert wiring.sglang == "0.5.23"
    assert wiring.loads == (
        LoadSeen(
            model_class="LlamaForCausalLMEagle3",
            rank=0,
            tensors=(
                LoadedTensor(
                    name="fc.weight", shape=(64, 192), dtype="float32", into=("model.fc.weight",)
                ),
                LoadedTensor(name="t2d", shape=(256,), dtype="bool", into=()),
            ),
            unwritten=("model.embed_tokens.weight",),
            shared=("model.embed_tokens.weight",),
        ),
    )
    assert wiring.forwards == (
        ForwardSeen(
            rank=0, mode="EXTEND", width=192, embed_width=64, fc_ran=True, fc_in=192, fc_out=64
        ),
        ForwardSeen(
            rank=0, mode="DECODE", width=64, embed_width=64, fc_ran=False, fc_in=None, fc_out=None
        ),
    )
    assert wiring.captures == (
        CaptureSeen(rank=0, target_class="LlamaForCausalLM", layers=(2, 4, 5)),
    )
    assert wiring.errors == ()


def test_ranks_are_kept_apart(tmp_path: Path) -> None:
    write(tmp_path, 20, LOAD, CAPTURE, rank=0)
    prefix = write(tmp_path, 21, LOAD, SHARED, CAPTURE, rank=1)
    wiring = read_wiring(prefix)
    assert [(load.rank, load.shared) for load in wiring.loads] == [
        (0, ()),
        (1, ("model.embed_tokens.weight",)),
    ]
    assert [capture.rank for capture in wiring.captures] == [0, 1]


@pytest.mark.parametrize("rest", ['{"fact": "forward", "mo', '{"fact": "hello"}', "{", "\n\n"])
def test_a_last_line_still_being_written_is_passed_over(tmp_path: Path, rest: str) -> None:
    wiring = read_wiring(write(tmp_path, 10, HELLO, rest=rest))
    assert wiring.sglang == "0.5.23"
    assert wiring.errors == ()


def test_unknown_facts_and_fields_are_passed_over(tmp_path: Path) -> None:
    wiring = read_wiring(write(tmp_path, 10, {"fact": "proposals"}, {**CAPTURE, "more": 1}))
    assert len(wiring.captures) == 1
    assert wiring.errors == ()


@pytest.mark.parametrize("broken", ["no JSON\n", "[1, 2]\n", "\xff\n"])
def test_a_broken_line_is_reported(tmp_path: Path, broken: str) -> None:
    prefix = write(tmp_path, 10, HELLO, rest=broken + json.dumps(CAPTURE) + "\n")
    wiring = read_wiring(prefix)
    assert wiring.errors == ("probe.10.jsonl: line 2 is not a JSON object",)
    assert len(wiring.captures) == 1


@pytest.mark.parametrize("fact", [LOAD, FORWARD, CAPTURE, SHARED])
def test_an_incomplete_fact_is_reported(tmp_path: Path, fact: dict[str, Any]) -> None:
    cut = {"fact": fact["fact"]}
    (error,) = read_wiring(write(tmp_path, 10, cut)).errors
    assert error.startswith(f"probe.10.jsonl: a '{fact['fact']}' line is incomplete")


def test_the_probe_s_own_faults_are_handed_on(tmp_path: Path) -> None:
    fault = {"fact": "error", "where": "load", "error": "AttributeError: no fc"}
    wiring = read_wiring(write(tmp_path, 10, fault, fault))
    assert wiring.errors == ("rank 0: load: AttributeError: no fc",)


def test_no_files_are_no_facts(tmp_path: Path) -> None:
    wiring = read_wiring(tmp_path / "probe")
    assert wiring.sglang is None
    assert [*wiring.loads, *wiring.forwards, *wiring.captures, *wiring.errors] == []


STATES = {
    "fact": "states",
    "tokens": [1, 2],
    "width": 24,
    "hidden_size": 8,
    "dtype": "float32",
    "states": [{"mean": 0.5, "norm": 2.0, "rows": [1.0, -1.0]}],
}
HEADS = {"fact": "heads", "embedding": "same", "head": "size"}


def drafted(tokens: int, outside: int) -> dict[str, Any]:
    counts = {"calls": 1, "tokens": tokens, "outside": outside}
    return {"fact": "drafted", "examples": [4], "allowed": 64, **counts}


def test_values_of_all_ranks_are_read(tmp_path: Path) -> None:
    corners = {"fact": "corners", "parameters": {"model.fc.weight": [[1.0, 2.0], [3.0, 4.0]]}}
    write(tmp_path, 11, STATES, HEADS, corners, drafted(3, 0), drafted(6, 2))
    other = {**corners, "parameters": {"model.fc.weight": [[9.0]]}}
    prefix = write(tmp_path, 12, STATES, HEADS, other, drafted(3, 0), rank=1)
    wiring = read_wiring(prefix)
    assert [(s.rank, s.tokens, s.states[0].rows) for s in wiring.states] == [
        (0, (1, 2), (1.0, -1.0)),
        (1, (1, 2), (1.0, -1.0)),
    ]
    assert [(h.rank, h.embedding, h.head) for h in wiring.heads] == [
        (0, "same", "size"),
        (1, "same", "size"),
    ]
    assert [(d.rank, d.tokens, d.outside) for d in wiring.drafted] == [(0, 6, 2), (1, 3, 0)]
    assert wiring.corners == {"model.fc.weight": ((1.0, 2.0), (3.0, 4.0))}
    assert wiring.errors == ()


def test_values_that_lack_something_are_told(tmp_path: Path) -> None:
    prefix = write(tmp_path, 11, {"fact": "states", "tokens": [1]}, {"fact": "heads"})
    assert [error.partition(" (")[0] for error in read_wiring(prefix).errors] == [
        "probe.11.jsonl: a 'states' line is incomplete",
        "probe.11.jsonl: a 'heads' line is incomplete",
    ]


def test_parameters_that_were_filled_in_part(tmp_path: Path) -> None:
    prefix = write(tmp_path, 11, {**LOAD, "partly": ["model.fc.weight"]})
    assert read_wiring(prefix).loads[0].partly == ("model.fc.weight",)
