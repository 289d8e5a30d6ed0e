from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3_checks.checkpoint.manifest import INDEX, read_manifest
from eagle3_checks.facts import FileFault, Manifest


def faults(manifest: Manifest) -> list[FileFault]:
    return [p.fault for p in manifest.problems]


def details(manifest: Manifest) -> str:
    return " | ".join(f"{p.file}: {p.detail}; {p.fix}" for p in manifest.problems)


@pytest.fixture
def shards(
    tmp_path: Path,
    tensor_file: Callable[..., bytes],
    healthy_tensors: Callable[..., dict[str, Any]],
) -> Path:
    """Give a checkpoint of two shards with an index."""
    names = list(healthy_tensors())
    weight_map: dict[str, str] = {}
    for shard, some in (("a.safetensors", names[:5]), ("b.safetensors", names[5:])):
        (tmp_path / shard).write_bytes(tensor_file({n: healthy_tensors()[n] for n in some}))
        weight_map |= dict.fromkeys(some, shard)
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return tmp_path


def change_index(folder: Path, **changes: str) -> None:
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"] |= changes
    (folder / INDEX).write_text(json.dumps(index))


def test_a_single_file(tmp_path: Path, healthy_pair: Callable[..., tuple[Path, Path]]) -> None:
    _, drafter = healthy_pair(tmp_path)
    manifest = read_manifest(drafter)
    assert manifest.problems == ()
    assert manifest.files == ("model.safetensors",)
    assert manifest.tensors["fc.weight"].shape == (16, 48)


def test_shards_with_an_index(shards: Path) -> None:
    manifest = read_manifest(shards)
    assert manifest.problems == ()
    assert manifest.files == ("a.safetensors", "b.safetensors")
    assert manifest.tensors["d2t"].file == "b.safetensors"


def test_shards_without_an_index_are_all_read(shards: Path) -> None:
    (shards / INDEX).unlink()
    assert read_manifest(shards).files == ("a.safetensors", "b.safetensors")


def test_files_that_the_index_does_not_name_are_left_alone(shards: Path) -> None:
    (shards / "left-over.safetensors").write_bytes(b"rubbish")
    assert read_manifest(shards).problems == ()


def test_the_metadata_travels(tmp_path: Path, tensor_file: Callable[..., bytes]) -> None:
    (tmp_path / "model.safetensors").write_bytes(tensor_file({}, {"format": "pt"}))
    assert read_manifest(tmp_path).metadata == {"format": "pt"}


def test_symlinks_of_the_hub_cache_are_followed(
    tmp_path: Path, healthy_pair: Callable[..., tuple[Path, Path]]
) -> None:
    _, drafter = healthy_pair(tmp_path)
    blob = tmp_path / "blobs" / "0123"
    blob.parent.mkdir()
    (drafter / "model.safetensors").rename(blob)
    (drafter / "model.safetensors").symlink_to(blob)
    assert read_manifest(drafter).problems == ()


def test_a_missing_folder(tmp_path: Path) -> None:
    manifest = read_manifest(tmp_path / "nowhere")
    assert faults(manifest) == [FileFault.MISSING]
    assert "give the folder" in details(manifest)


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.touch()
    assert faults(read_manifest(file)) == [FileFault.UNREADABLE]


def test_a_name_that_no_file_can_have() -> None:
    assert faults(read_manifest(Path("a\0b"))) == [FileFault.UNREADABLE]


def test_an_empty_folder(tmp_path: Path) -> None:
    assert faults(read_manifest(tmp_path)) == [FileFault.MISSING]


def test_the_folder_above_is_pointed_down(tmp_path: Path) -> None:
    (tmp_path / "step_100").mkdir()
    (tmp_path / "step_100" / "model.safetensors").touch()
    assert "the folder step_100 in it has some" in details(read_manifest(tmp_path))


def test_pickle_alone_says_how_to_convert(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04evil.")
    manifest = read_manifest(tmp_path)
    assert faults(manifest) == [FileFault.PICKLE_ONLY]
    assert "torch.load('pytorch_model.bin', map_location='cpu', weights_only=True)" in (
        details(manifest)
    )


def test_pickle_beside_safetensors_is_healthy(
    tmp_path: Path, healthy_pair: Callable[..., tuple[Path, Path]]
) -> None:
    _, drafter = healthy_pair(tmp_path)
    (drafter / "training_state.pt").touch()
    assert read_manifest(drafter).problems == ()


def test_both_forms_of_one_checkpoint_count_once(
    tmp_path: Path, healthy_pair: Callable[..., tuple[Path, Path]]
) -> None:
    _, drafter = healthy_pair(tmp_path)
    whole = (drafter / "model.safetensors").read_bytes()
    (drafter / "consolidated.safetensors").write_bytes(whole)
    manifest = read_manifest(drafter)
    assert (manifest.files, manifest.problems) == (("model.safetensors",), ())


def test_a_tensor_in_two_files(
    tmp_path: Path, healthy_pair: Callable[..., tuple[Path, Path]], tensor_file: Any
) -> None:
    _, drafter = healthy_pair(tmp_path)
    (drafter / "more.safetensors").write_bytes(tensor_file({"fc.weight": ("BF16", (1,), None)}))
    manifest = read_manifest(drafter)
    assert faults(manifest) == [FileFault.DUPLICATE]
    assert "more.safetensors: tensor fc.weight is in model.safetensors too" in details(manifest)


def test_a_file_that_is_there_twice_is_one_problem(
    tmp_path: Path, healthy_pair: Callable[..., tuple[Path, Path]]
) -> None:
    _, drafter = healthy_pair(tmp_path)
    shutil.copy(drafter / "model.safetensors", drafter / "copy.safetensors")
    manifest = read_manifest(drafter)
    assert faults(manifest) == [FileFault.DUPLICATE]
    assert "fc.weight and 14 more are in copy.safetensors too" in details(manifest)


def test_an_absent_shard(shards: Path) -> None:
    (shards / "b.safetensors").unlink()
    manifest = read_manifest(shards)
    assert faults(manifest) == [FileFault.ABSENT_SHARD]
    assert "it names b.safetensors (10 tensors), which is not there" in details(manifest)


@pytest.mark.parametrize("name", ["../../secret.safetensors", "/etc/passwd", "..", "sub/a.bin", ""])
def test_names_that_lead_elsewhere_are_refused(shards: Path, name: str) -> None:
    change_index(shards, extra=name)
    manifest = read_manifest(shards)
    assert FileFault.UNREADABLE in faults(manifest)
    assert "lie beside it" in details(manifest)
    assert manifest.files == ("a.safetensors", "b.safetensors")


def test_an_index_that_promises_too_much(shards: Path) -> None:
    change_index(shards, **{"absent.weight": "a.safetensors"})
    assert "a.safetensors holds absent.weight, which it does not" in details(read_manifest(shards))


@pytest.mark.parametrize(
    "text",
    [
        '{"weight_map": {"a": "\\ud800.safetensors"}}',
        "[]",
        "{}",
        '{"weight_map": {"a": 1}}',
        "",
        "{",
    ],
)
def test_an_index_of_another_form(tmp_path: Path, text: str) -> None:
    (tmp_path / INDEX).write_text(text)
    assert len(read_manifest(tmp_path).problems) == 1


def test_a_loop_of_symlinks(tmp_path: Path) -> None:
    link = tmp_path / "model.safetensors"
    link.symlink_to(link)
    assert faults(read_manifest(tmp_path)) == [FileFault.UNREADABLE]


def test_a_folder_called_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").mkdir()
    assert "it is a folder" in details(read_manifest(tmp_path))


@settings(max_examples=100, deadline=None)
@given(text=st.binary(max_size=200))
def test_any_index_is_survived(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    folder = tmp_path_factory.mktemp("index")
    (folder / INDEX).write_bytes(text)
    assert read_manifest(folder).problems
