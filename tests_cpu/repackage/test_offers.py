"""A finding that a repackaging removes says so, and the promise is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.inspection import inspect
from eagle3_checks.repackage.offers import FIXES
from eagle3_checks.rules.registry import codes
from tests_cpu.repackage.conftest import Rebuild
from tests_cpu.repackage.test_fixes import speculators

Broken = Callable[..., Path]
OFFER = "`eagle3-checks repackage IN OUT --sglang"


def failed(result: dict[str, Any]) -> set[tuple[str, str]]:
    return {(f["code"], f["message"]) for f in result["findings"] if f["status"] == "fail"}


def offered(result: dict[str, Any]) -> set[tuple[str, str]]:
    return {(f["code"], f["message"]) for f in result["findings"] if OFFER in f["fix"]}


DEFECTS: dict[str, dict[str, Any]] = {
    "layer name": {"layer": "decoder"},
    "layer name and a bias": {
        "layer": "decoder",
        "tensors": {"decoder.self_attn.q_proj.bias": ("BF16", (16,), None)},
    },
    "architecture": {"config": {"architectures": ["Eagle3DraftModel"]}},
    "tie": {"config": {"tie_word_embeddings": True}},
    "draft vocabulary": {"config": {"draft_vocab_size": ...}},
    "float d2t": {"tensors": {"d2t": ("F32", (64,), b"\0\0\x40\x40" * 64)}},
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_what_is_promised_is_kept(
    broken: Broken, rebuild: Rebuild, tmp_path: Path, defect: str
) -> None:
    drafter = broken(**DEFECTS[defect])
    before = inspect(str(drafter))
    assert offered(before)
    assert rebuild(drafter).written
    after = inspect(str(tmp_path / "out"))
    assert not offered(before) & failed(after)
    assert failed(before) - offered(before) <= failed(after)


def test_speculators_files_are_served_as_they_were_trained(
    broken: Broken,
    rebuild: Rebuild,
    tmp_path: Path,
    healthy_config: Callable[..., dict[str, Any]],
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    told = healthy_config("target", num_hidden_layers=61)
    (target / "config.json").write_text(json.dumps(told))
    ids = {"eagle_aux_hidden_state_layer_ids": [2, 20, 50]}
    changes = speculators(healthy_config("draft"), speculators_config={}, **ids)
    drafter = broken(changes, layer="layers.0")
    before = inspect(str(drafter), str(target))
    assert {"CFG001", "CFG005", "CFG006"} <= {code for code, _ in offered(before)}
    assert rebuild(drafter, target=str(target)).good
    after = inspect(str(tmp_path / "out"), str(target))
    assert not {f["code"] for f in after["findings"] if f["status"] == "fail"} - {
        "FUS010",
        "FUS011",
    }


@pytest.mark.parametrize(
    "defect",
    [
        {"tensors": {"lm_head.weight": ...}},
        {"config": {"architectures": ["LlamaForCausalLM"]}, "tensors": {"fc.weight": ...}},
        {"tensors": {"midlayer.self_attn.q_norm.weight": ("BF16", (8,), None)}},
    ],
)
def test_what_cannot_be_fixed_is_not_promised(broken: Broken, defect: dict[str, Any]) -> None:
    result = inspect(str(broken(**defect)))
    assert failed(result)
    assert not offered(result)


def test_the_pages_speak_of_rules_that_exist() -> None:
    assert set(FIXES) <= set(codes())
