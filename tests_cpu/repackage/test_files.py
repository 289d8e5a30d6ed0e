"""Weights stay the same to the bit, and a failure leaves nothing behind."""

from __future__ import annotations

import errno
import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from eagle3_checks.checkpoint.manifest import INDEX, read_manifest
from eagle3_checks.repackage import copying, run
from eagle3_checks.repackage.run import RepackageError, repackage
from tests_cpu.repackage.conftest import Rebuild

Broken = Callable[..., Path]
OLD = "0.5.9"


def contents(folder: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Return type, shape and bytes of every tensor."""
    manifest = read_manifest(folder)
    assert manifest.problems == ()
    files = {file: (folder / file).read_bytes() for file in manifest.files}
    return {
        name: (info.dtype, info.shape, files[info.file][info.begin : info.end])
        for name, info in manifest.tensors.items()
    }


def leftovers(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name != "in")


def test_every_bit_is_kept(broken: Broken, rebuild: Rebuild, tmp_path: Path) -> None:
    drafter = broken(layer="layers.0")
    assert rebuild(drafter, OLD).good
    old, new = contents(drafter), contents(tmp_path / "out")
    assert {name.replace("layers.0.", "midlayer."): held for name, held in old.items()} == new
    assert list(new) == [name.replace("layers.0.", "midlayer.") for name in old]


def test_safetensors_reads_it(broken: Broken, rebuild: Rebuild, tmp_path: Path) -> None:
    spec = ("F32", (64,), struct.pack("<64f", *[3.0] * 64))
    rebuild(broken(layer="layers.0", tensors={"d2t": spec}), OLD)
    with safe_open(str(tmp_path / "out" / "model.safetensors"), framework="np") as file:
        assert "midlayer.mlp.up_proj.weight" in file.keys()  # noqa: SIM118 - not a mapping
        assert file.get_tensor("d2t").tolist() == [3] * 64
        assert file.metadata()["format"] == "pt"


def test_a_d2t_written_anew_moves_no_other_tensor_out_of_line(
    broken: Broken, rebuild: Rebuild, tmp_path: Path
) -> None:
    spec = ("F32", (64,), struct.pack("<64f", *[3.0] * 64))
    drafter = broken(tensors={"d2t": spec})
    assert rebuild(drafter).good
    old, new = contents(drafter), contents(tmp_path / "out")
    assert new.pop("d2t") == ("I64", (64,), struct.pack("<64q", *[3] * 64))
    old.pop("d2t")
    assert new == old
    starts = {n: i.begin % 8 for n, i in read_manifest(tmp_path / "out").tensors.items()}
    assert starts["d2t"] == 0


def test_shards_keep_their_files_and_the_index_its_word(
    broken: Broken, rebuild: Rebuild, tmp_path: Path, tensor_file: Any, healthy_tensors: Any
) -> None:
    drafter = broken()
    (drafter / "model.safetensors").unlink()
    tensors = healthy_tensors("layers.0")
    tensors["d2t"] = ("F64", (64,), struct.pack("<64d", *[3.0] * 64))
    names = list(tensors)
    weight_map: dict[str, str] = {}
    for shard, some in (("a.safetensors", names[:5]), ("b.safetensors", names[5:])):
        (drafter / shard).write_bytes(tensor_file({n: tensors[n] for n in some}, {"shard": shard}))
        weight_map |= dict.fromkeys(some, shard)
    index = {"metadata": {"total_size": 9000}, "weight_map": weight_map}
    (drafter / INDEX).write_text(json.dumps(index))
    (drafter / "left-over.safetensors").write_bytes(b"rubbish")
    outcome = rebuild(drafter, OLD)
    assert outcome.good
    assert [left.name for left in outcome.left_out] == ["left-over.safetensors"]
    new = json.loads((tmp_path / "out" / INDEX).read_text())
    assert new["metadata"]["total_size"] == 9000
    assert new["weight_map"]["midlayer.mlp.up_proj.weight"] == "b.safetensors"
    assert read_manifest(tmp_path / "out").files == ("a.safetensors", "b.safetensors")
    head = (tmp_path / "out" / "b.safetensors").read_bytes()[:400]
    assert b'"shard":"b.safetensors"' in head


def test_other_files_come_along_and_some_stay(
    broken: Broken, rebuild: Rebuild, tmp_path: Path
) -> None:
    drafter = broken(layer="layers.0")
    (tmp_path / "secret").write_text("of the machine")
    (drafter / "tokenizer.json").write_bytes(b"\x00tokens")
    (drafter / "training_state.pt").write_bytes(b"pickle")
    (drafter / ".cache").mkdir()
    (drafter / "checkpoint-1").mkdir()
    (drafter / "stolen.txt").symlink_to(tmp_path / "secret")
    os.mkfifo(drafter / "pipe")
    outcome = rebuild(drafter, OLD)
    assert outcome.good
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == b"\x00tokens"
    left = {item.name: item.why for item in outcome.left_out}
    assert left == {
        ".cache": "hidden",
        "checkpoint-1": "no plain file",
        "pipe": "no plain file",
        "stolen.txt": "a link that leads out of the checkpoint",
        "training_state.pt": "a pickle file is a program",
    }
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }


def test_links_of_the_hub_cache_are_followed(
    broken: Broken, rebuild: Rebuild, tmp_path: Path
) -> None:
    drafter = broken(layer="layers.0")
    repository = tmp_path / "models--org--drafter"
    snapshot = repository / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (drafter / "tokenizer.json").write_text("{}")
    for path in list(drafter.iterdir()):
        path.rename(repository / "blobs" / path.name)
        (snapshot / path.name).symlink_to(repository / "blobs" / path.name)
    outcome = rebuild(snapshot, OLD)
    assert outcome.good
    assert outcome.left_out == ()
    assert not any(path.is_symlink() for path in (tmp_path / "out").iterdir())


def test_out_must_be_free(broken: Broken, rebuild: Rebuild, tmp_path: Path) -> None:
    drafter = broken(layer="layers.0")
    (tmp_path / "out").mkdir()
    with pytest.raises(RepackageError, match="is there already"):
        rebuild(drafter, OLD)
    with pytest.raises(RepackageError, match="lies in"):
        repackage(str(drafter), drafter / "fixed", sglang=OLD)
    with pytest.raises(RepackageError, match="there is no folder"):
        repackage(str(drafter), tmp_path / "nowhere" / "out", sglang=OLD)
    with pytest.raises(RepackageError, match="no such folder, and it is no hub id"):
        repackage(str(tmp_path / "nothing"), tmp_path / "new", sglang=OLD)
    assert leftovers(tmp_path) == ["out"]


def test_a_full_disk_is_told_before_anything_is_written(
    broken: Broken, rebuild: Rebuild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SPARE", 1 << 60)
    with pytest.raises(RepackageError, match="GB are needed there"):
        rebuild(broken(layer="layers.0"), OLD)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_failure_leaves_nothing_behind(
    broken: Broken,
    rebuild: Rebuild,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr("eagle3_checks.repackage.writing.copy_range", fail)
    with pytest.raises(type(error)):
        rebuild(broken(layer="layers.0"), OLD)
    assert leftovers(tmp_path) == []


def test_a_file_that_shrinks_meanwhile(
    broken: Broken, rebuild: Rebuild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.copy_file_range", lambda *_, **__: 0)
    monkeypatch.setattr("os.pread", lambda *_: b"")
    with pytest.raises(RepackageError, match="became shorter"):
        rebuild(broken(layer="layers.0"), OLD)
    assert leftovers(tmp_path) == []


def test_termination_leaves_nothing_behind(broken: Broken, tmp_path: Path) -> None:
    drafter = broken(layer="layers.0")
    slow = (
        "import eagle3_checks.repackage.writing as w, time, sys\n"
        "from eagle3_checks.cli import main\n"
        "w.copy_range = lambda *_: (print('copying', flush=True), time.sleep(60))\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    words = ["repackage", str(drafter), str(tmp_path / "out"), "--sglang", OLD]
    with subprocess.Popen([sys.executable, "-c", slow, *words], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"copying\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143
    assert leftovers(tmp_path) == []


@settings(max_examples=30)
@given(data=st.binary(max_size=300), cut=st.integers(0, 300), kernel=st.booleans())
def test_ranges_are_copied(
    tmp_path_factory: pytest.TempPathFactory,
    data: bytes,
    cut: int,
    kernel: bool,  # noqa: FBT001
) -> None:
    folder = tmp_path_factory.mktemp("copy")
    (folder / "old").write_bytes(data)
    count = max(len(data) - cut, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "CHUNK", 7)
        if not kernel:
            patch.delattr(os, "copy_file_range")
        with (folder / "old").open("rb") as old, (folder / "new").open("xb", buffering=0) as new:
            new.write(b"head")
            copying.copy_range(old.fileno(), new.fileno(), min(cut, len(data)), count)
    assert (folder / "new").read_bytes() == b"head" + data[cut:]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(broken: Broken, tmp_path: Path) -> None:
    drafter = broken(layer="layers.0")
    whole = (drafter / "model.safetensors").read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    end, rows = len(whole) - 8 - length, 128 << 16
    size = rows * 16 * 2
    header["embed_tokens.weight"] = {
        "dtype": "BF16",
        "shape": [rows, 16],
        "data_offsets": [end, end + size],
    }
    text = json.dumps(header).encode()
    with (drafter / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + whole[8 + length :])
        file.truncate(8 + len(text) + end + size)
    config = json.loads((drafter / "config.json").read_text())
    config["vocab_size"] = rows
    (drafter / "config.json").write_text(json.dumps(config))
    limited = (
        "import resource, sys; from eagle3_checks.cli import main\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({size}, {size}))\n"
        "main(sys.argv[1:])\n"
    )
    words = ["repackage", str(drafter), str(tmp_path / "out"), "--sglang", OLD]
    done = subprocess.run(
        [sys.executable, "-c", limited, *words], capture_output=True, text=True, check=False
    )
    assert "wrote" in done.stdout, done.stderr
    assert "midlayer.mlp.up_proj.weight" in read_manifest(tmp_path / "out").tensors
