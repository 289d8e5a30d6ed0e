from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.checkpoint import floats, read_manifest, scan
from eagle3_checks.checkpoint.scan import spread
from eagle3_checks.facts import TensorValues
from tests_cpu.conftest import safetensors_bytes
from tests_cpu.rules.cases.tensors import EMBEDDING, HEAD, bfloat16, noise, rows, trained

Pair = Callable[..., tuple[Path, Path]]


def scanned(folder: Path, tensors: dict[str, Any], target: Any = None) -> TensorValues:
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    beside = None
    if target:
        beside = folder / "target"
        beside.mkdir()
        (beside / "model.safetensors").write_bytes(safetensors_bytes(target))
    return scan.scan(folder, read_manifest(folder), beside)


def test_a_trained_drafter(tmp_path: Path) -> None:
    seen = scanned(tmp_path / "x", trained())
    assert sorted(seen.skipped) == ["d2t", "t2d"]
    fc, norm = seen.tensors["fc.weight"], seen.tensors["norm.weight"]
    assert (fc.sampled, fc.non_finite, fc.all_zero) == (768, 0, False)
    assert fc.rms == pytest.approx(0.02, rel=0.1)
    assert fc.low < -0.03 < fc.mean < 0.03 < fc.high
    assert norm.rms == pytest.approx(1.1, rel=0.01)
    assert seen.problems == ()


@pytest.mark.parametrize("chunk", [1, 64, 96, 1 << 20])
def test_pieces_of_any_size_find_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(scan, "PIECE_BYTES", chunk)
    blank, bad = ("BF16", (2, 16), bytes(64)), ("BF16", (1, 16), bfloat16([math.nan] * 16))
    head = rows(noise(5, 16), blank, noise(3, 16), bad)
    seen = scanned(tmp_path / "x", {HEAD: head}).tensors[HEAD]
    assert seen.zero_rows == (5, 6)
    assert seen.repeats == {7: 0, 8: 1, 9: 2}
    assert seen.non_finite == 16
    assert sorted(seen.row_rms) == list(range(11))


def test_wide_rows_are_told_apart_by_start_and_middle(tmp_path: Path) -> None:
    one, other = [0.5] * 512, [*[0.5] * 256, *[0.25] * 256]
    data = bfloat16([*one, *other, *one])
    seen = scanned(tmp_path / "x", {HEAD: ("BF16", (3, 512), data)}).tensors[HEAD]
    assert seen.repeats == {2: 0}


@pytest.mark.parametrize("engine", ["numpy", "plain"])
def test_rows_of_one_hash_are_compared_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    if engine == "plain":
        monkeypatch.setattr(floats, "numpy", lambda: None)
    else:
        pytest.importorskip("numpy")
    one, other = [0.5] * 512, [*[0.5] * 500, *[0.25] * 12]
    minus, faint = [-0.0] * 512, [*[0.0] * 500, *[0.25] * 12]
    data = bfloat16([*one, *other, *one, *minus, *faint, *minus])
    seen = scanned(tmp_path / "x", {HEAD: ("BF16", (6, 512), data)}).tensors[HEAD]
    assert seen.repeats == {2: 0}
    assert seen.zero_rows == (3, 5)


def test_a_large_tensor_is_sampled(tmp_path: Path) -> None:
    values = bfloat16([0.5] * (1 << 17))
    seen = scanned(tmp_path / "x", {"fc.weight": ("BF16", (1 << 9, 1 << 8), values)})
    assert (seen.tensors["fc.weight"].sampled, seen.tensors["fc.weight"].rms) == (65536, 0.5)


def test_without_numpy_the_same_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = {**trained(), "fc.weight": ("BF16", (16, 48), bfloat16([math.inf] * 768))}
    fast = scanned(tmp_path / "fast", tensors)
    monkeypatch.setattr(floats, "numpy", lambda: None)
    slow = scanned(tmp_path / "slow", tensors)
    assert slow.tensors.keys() == fast.tensors.keys()
    for name, seen in slow.tensors.items():
        quick = fast.tensors[name]
        assert quick.rms == pytest.approx(seen.rms)
        assert quick.mean == pytest.approx(seen.mean, abs=1e-9)
        assert quick.row_rms == pytest.approx(seen.row_rms)
        same = {"rms": seen.rms, "mean": seen.mean, "row_rms": seen.row_rms}
        assert replace(quick, **same) == seen  # type: ignore[arg-type]
    assert fast.tensors["fc.weight"].non_finite == 768
    assert fast.tensors["fc.weight"].sampled == 0


def test_several_files_and_types(tmp_path: Path) -> None:
    tmp_path.joinpath("a.safetensors").write_bytes(
        safetensors_bytes({"fc.weight": ("F32", (2, 2), None), "s": ("F8_E4M3", (4,), b"\x7f" * 4)})
    )
    tmp_path.joinpath("b.safetensors").write_bytes(
        safetensors_bytes({"empty": ("BF16", (0, 4), None), "norm.weight": ("BF16", (1,), None)})
    )
    seen = scan.scan(tmp_path, read_manifest(tmp_path))
    assert seen.tensors["fc.weight"].all_zero
    assert seen.tensors["s"].non_finite == 4
    assert seen.skipped == {"empty": "it is empty"}


def test_a_file_that_ends_early_or_is_gone(tmp_path: Path, healthy_pair: Pair) -> None:
    _, drafter = healthy_pair(tmp_path)
    manifest = read_manifest(drafter)
    weights = drafter / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1000])
    (fault,) = scan.scan(drafter, manifest).problems
    assert "it ends within tensor" in fault.detail
    weights.unlink()
    (fault,) = scan.scan(drafter, manifest).problems
    assert fault.detail == "there is no such file"
    away = replace(manifest, files=("../x.safetensors",))
    (fault,) = scan.scan(drafter, away).problems
    assert "leads out of the checkpoint's folder" in fault.detail


def test_the_embedding_is_compared_up_to_rounding(tmp_path: Path) -> None:
    mine = noise(70, 16, seed=3)
    wide = ("F32", (70, 16), b"".join(b"\1\0" + mine[2][i : i + 2] for i in range(0, 2240, 2)))  # type: ignore[index]
    theirs = {"language_model.model.embed_tokens.weight": wide}
    seen = scanned(tmp_path / "x", {EMBEDDING: mine}, theirs).embedding
    assert seen is not None
    assert (seen.rows, seen.equal) == (64, 64)
    other = scanned(tmp_path / "y", {EMBEDDING: noise(70, 16, seed=4)}, theirs).embedding
    assert other is not None
    assert (other.rows, other.equal) == (64, 0)
    assert other.largest > 0.01


@pytest.mark.parametrize(
    "theirs",
    [
        {"model.embed_tokens.weight": noise(70, 8)},
        {"wte.weight": noise(70, 16)},
        {"a.embed_tokens.weight": noise(70, 16), "b.embed_tokens.weight": noise(70, 16)},
    ],
)
def test_embeddings_that_cannot_be_compared(tmp_path: Path, theirs: dict[str, Any]) -> None:
    assert scanned(tmp_path / "x", {EMBEDDING: noise(70, 16)}, theirs).embedding is None


def test_indices_are_spread_from_first_to_last() -> None:
    assert spread(3, 8) == (0, 1, 2)
    assert spread(100, 4) == (0, 33, 66, 99)
