from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file

from eagle3_checks.inspection import inspect
from eagle3_checks.reference.defects import DEFECTS
from eagle3_checks.reference.tensorfile import RawTensor, read_tensors, write_tensors
from eagle3_checks.rules.registry import codes

if TYPE_CHECKING:
    from pathlib import Path

Pair = tuple[dict[str, RawTensor], dict[str, RawTensor]]


def tensors(pair: Path) -> Pair:
    return (
        read_tensors(pair / "target" / "model.safetensors")[0],
        read_tensors(pair / "drafter" / "model.safetensors")[0],
    )


def configs(pair: Path) -> tuple[dict[str, object], dict[str, object]]:
    target, drafter = (
        json.loads((pair / part / "config.json").read_text()) for part in ("target", "drafter")
    )
    return target, drafter


@pytest.fixture
def planted(tiny: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    out = tmp_path / "pair"
    DEFECTS[request.param].plant(tiny, out)
    return out


@pytest.mark.parametrize("planted", sorted(DEFECTS), indirect=True)
def test_files_are_complete_and_the_healthy_pair_is_untouched(planted: Path, tiny: Path) -> None:
    before = {f: f.stat().st_mtime_ns for f in tiny.rglob("*") if f.is_file()}
    for part in ("target", "drafter"):
        assert {f.name for f in (planted / part).iterdir()} == {
            f.name for f in (tiny / part).iterdir()
        }
    assert tensors(tiny)[1].keys() >= {"fc.weight", "d2t"}
    assert before == {f: f.stat().st_mtime_ns for f in tiny.rglob("*") if f.is_file()}


@pytest.mark.parametrize(
    ("planted", "prefix"),
    [("decoder-renamed", "decoder."), ("layers-named", "layers.0.")],
    indirect=["planted"],
)
def test_renamed(planted: Path, prefix: str, tiny: Path) -> None:
    target, drafter = tensors(tiny)
    seen_target, seen = tensors(planted)
    renamed = {name.replace("midlayer.", prefix): value for name, value in drafter.items()}
    assert seen_target == target
    assert seen == renamed
    assert not any(name.startswith("midlayer.") for name in seen)
    assert configs(planted) == configs(tiny)


@pytest.mark.parametrize("planted", ["fc-square"], indirect=True)
def test_fc_square(planted: Path, tiny: Path) -> None:
    before = load_file(tiny / "drafter" / "model.safetensors")
    after = load_file(planted / "drafter" / "model.safetensors")
    hidden = before["fc.weight"].shape[0]
    assert after["fc.weight"].shape == (hidden, hidden)
    assert torch.equal(after.pop("fc.weight"), before.pop("fc.weight")[:, :hidden])
    assert all(torch.equal(after[name], value) for name, value in before.items())


@pytest.mark.parametrize("planted", ["d2t-zero"], indirect=True)
def test_d2t_zero(planted: Path, tiny: Path) -> None:
    before, after = tensors(tiny)[1], tensors(planted)[1]
    assert after["d2t"].shape == before["d2t"].shape
    assert not any(after.pop("d2t").data)
    assert any(before.pop("d2t").data)
    assert after == before


@pytest.mark.parametrize("planted", ["algorithm-eagle"], indirect=True)
def test_algorithm_eagle_changes_a_flag_alone(planted: Path, tiny: Path) -> None:
    assert tensors(planted) == tensors(tiny)
    assert configs(planted) == configs(tiny)
    assert DEFECTS["algorithm-eagle"].flags == {"speculative-algorithm": "EAGLE"}


@pytest.mark.parametrize("planted", ["target-5-layers"], indirect=True)
def test_target_of_five_layers(planted: Path, tiny: Path) -> None:
    before, after = tensors(tiny), tensors(planted)
    assert after[1] == before[1]
    gone = before[0].keys() - after[0].keys()
    assert {name.split(".")[2] for name in gone} == {"5", "6", "7"}
    assert after[0] == {name: value for name, value in before[0].items() if name not in gone}
    assert configs(planted)[0] == configs(tiny)[0] | {"num_hidden_layers": 5}


def errors(pair: Path, sglang: str) -> set[str]:
    result = inspect(str(pair / "drafter"), str(pair / "target"), sglang)
    failed = [finding for finding in result["findings"] if finding["status"] == "fail"]
    return {finding["code"] for finding in failed if finding["severity"] == "error"}


@pytest.mark.parametrize("planted", sorted(DEFECTS), indirect=True)
def test_the_rules_named_are_those_that_fire(planted: Path, request: pytest.FixtureRequest) -> None:
    defect = DEFECTS[request.node.callspec.params["planted"]]
    expected = set(defect.codes)
    if defect.where == "flag":
        assert errors(planted, "0.5.23") == set()
        assert expected <= set(codes())
    elif defect.healthy_from:
        assert errors(planted, defect.healthy_from) == errors(planted, "0.5.23") == set()
        assert errors(planted, "0.5.11") == expected
    else:
        assert errors(planted, "0.5.23") == expected


def test_the_healthy_pair_fires_nothing(tiny: Path) -> None:
    result = inspect(str(tiny / "drafter"), str(tiny / "target"), values=True)
    fired = [f for f in result["findings"] if f["status"] == "fail" and f["severity"] != "info"]
    assert fired == []


def test_planting_over_something_is_refused(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        DEFECTS["d2t-zero"].plant(tiny, tmp_path)


def test_planting_twice_gives_the_same_files(tiny: Path, tmp_path: Path) -> None:
    for defect in DEFECTS.values():
        for out in ("a", "b"):
            defect.plant(tiny, tmp_path / defect.name / out)
        first, second = (
            {f.relative_to(root): f.read_bytes() for f in root.rglob("*") if f.is_file()}
            for root in (tmp_path / defect.name / "a", tmp_path / defect.name / "b")
        )
        assert first == second


def test_names_and_places() -> None:
    assert all(name == defect.name for name, defect in DEFECTS.items())
    assert all(bool(defect.flags) == (defect.where == "flag") for defect in DEFECTS.values())


def test_tensor_file_round_trip(tmp_path: Path) -> None:
    some = {"b": RawTensor("I64", (1,), bytes(8)), "a": RawTensor("BOOL", (3,), b"\1\0\1")}
    write_tensors(some, tmp_path / "x.safetensors", {"format": "pt"})
    assert read_tensors(tmp_path / "x.safetensors") == (some, {"format": "pt"})
