from __future__ import annotations

import json
import shutil
from pathlib import Path

from eagle3_checks.identity import drafter_identity, flags_identity, target_identity
from eagle3_checks.reference.tensorfile import RawTensor, read_tensors, write_tensors
from eagle3_checks.settings import resolve
from eagle3_checks.shipped import shipped

TINY = shipped("fixtures", "tiny")


def test_values_alone_make_another_drafter(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        shutil.copytree(TINY / "drafter", folder)
    tensors, metadata = read_tensors(second / "model.safetensors")
    fc = tensors["fc.weight"]
    changed = RawTensor(fc.dtype, fc.shape, fc.data[:-1] + bytes([fc.data[-1] ^ 1]))
    write_tensors(tensors | {"fc.weight": changed}, second / "model.safetensors", metadata)
    assert drafter_identity(str(first)) == drafter_identity(str(TINY / "drafter"))
    assert drafter_identity(str(first)) != drafter_identity(str(second))
    assert drafter_identity(str(tmp_path / "gone")) is None


def test_another_config_makes_another_target(tmp_path: Path) -> None:
    shutil.copytree(TINY / "target", tmp_path / "target")
    same = target_identity(str(TINY / "target"))
    config = tmp_path / "target" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"rope_theta": 3.0}))
    assert target_identity(str(tmp_path / "target")) != same
    assert target_identity("org/a") != target_identity("org/b")


def test_flags_that_can_change_a_figure_count() -> None:
    def hashed(**overrides: object) -> str:
        changed = {key.replace("__", "."): value for key, value in overrides.items()}
        return flags_identity(resolve("tiny", changed).profile, without=("floors.",))

    usual = hashed()
    assert hashed(server__port=30000, drafter__path="x", floors__accept_length=1.1) == usual
    others = [
        hashed(speculation__steps=2, speculation__draft_tokens=3),
        hashed(server__env={"A": "1"}),
        hashed(prompts__max_new_tokens=7),
    ]
    assert len({usual, *others}) == 4
