from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file

from eagle3_checks.diagnosis.catalogue import CAUSES
from eagle3_checks.inspection import inspect
from eagle3_checks.reference.defects import DEFECTS, VARIANTS
from eagle3_checks.reference.defects.kinds import GROUPS, kinds
from eagle3_checks.reference.defects.planting import copy_pair
from eagle3_checks.reference.tensorfile import RawTensor, read_tensors, write_tensors
from eagle3_checks.rules.base import STATIC_FACTS
from eagle3_checks.rules.registry import all_rules, codes

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


COMPLETE = ["decoder-renamed", "rope-theta", "fc-zero", "target-changed", "target-5-layers"]


@pytest.mark.parametrize("planted", COMPLETE, indirect=True)
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
    assert DEFECTS["algorithm-eagle"].settings == {"speculation.algorithm": "EAGLE"}


@pytest.mark.parametrize("planted", ["target-5-layers"], indirect=True)
def test_target_of_five_layers(planted: Path, tiny: Path) -> None:
    before, after = tensors(tiny), tensors(planted)
    assert after[1] == before[1]
    gone = before[0].keys() - after[0].keys()
    assert {name.split(".")[2] for name in gone} == {"5", "6", "7"}
    assert after[0] == {name: value for name, value in before[0].items() if name not in gone}
    assert configs(planted)[0] == configs(tiny)[0] | {"num_hidden_layers": 5}


def test_the_healthy_pair_fires_nothing(tiny: Path) -> None:
    result = inspect(str(tiny / "drafter"), str(tiny / "target"), values=True)
    fired = [f for f in result["findings"] if f["status"] == "fail" and f["severity"] != "info"]
    assert fired == []


def test_planting_over_something_is_refused(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        DEFECTS["d2t-zero"].plant(tiny, tmp_path)


def test_planting_twice_gives_the_same_files(tiny: Path, tmp_path: Path) -> None:
    zoo = (*DEFECTS.values(), *VARIANTS.values())
    for defect in (planted for planted in zoo if planted.plant is not copy_pair):
        for out in ("a", "b"):
            defect.plant(tiny, tmp_path / defect.name / out)
        first, second = (
            {f.relative_to(root): f.read_bytes() for f in root.rglob("*") if f.is_file()}
            for root in (tmp_path / defect.name / "a", tmp_path / defect.name / "b")
        )
        assert first == second


def test_names_and_places() -> None:
    for zoo in (DEFECTS, VARIANTS):
        assert all(name == planted.name for name, planted in zoo.items())
    assert not DEFECTS.keys() & VARIANTS.keys()
    for defect in DEFECTS.values():
        if defect.where in ("flag", "environment"):
            assert defect.settings
            assert defect.plant is copy_pair
        assert bool(defect.damage) == (defect.where == "server")
        assert defect.cause in CAUSES
        assert defect.served or defect.codes or defect.warns, defect.name


def test_every_kind_has_a_rule_and_a_defect_or_a_reason() -> None:
    planted = {defect.kind for defect in DEFECTS.values()}
    assert planted <= kinds().keys()
    for kind in kinds().values():
        assert (kind.id in planted) != bool(kind.out), kind.id
        assert kind.rules
        assert set(kind.rules) <= set(codes())
        assert kind.threads
        assert kind.group in GROUPS


def test_every_rule_about_files_has_a_defect_in_the_zoo() -> None:
    fired = {code for defect in DEFECTS.values() for code in (*defect.codes, *defect.warns)}
    static = {rule.code() for rule in all_rules() if set(rule.needs()) <= STATIC_FACTS}
    assert static - fired == {
        "SRC005",  # about the SGLang version asked for, not about a drafter
        "VOC007",  # a note
        "CFG023",  # a profile that asks for it is refused when it is read
    }


def test_tensor_file_round_trip(tmp_path: Path) -> None:
    some = {"b": RawTensor("I64", (1,), bytes(8)), "a": RawTensor("BOOL", (3,), b"\1\0\1")}
    write_tensors(some, tmp_path / "x.safetensors", {"format": "pt"})
    assert read_tensors(tmp_path / "x.safetensors") == (some, {"format": "pt"})
