from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.checkpoint import (
    CheckpointError,
    digest,
    read_d2t,
    read_manifest,
    read_tensor_bytes,
    read_vocab_map,
)

Pair = Callable[..., tuple[Path, Path]]


def test_d2t_and_t2d_are_read(tmp_path: Path, healthy_pair: Pair) -> None:
    _, drafter = healthy_pair(tmp_path)
    manifest = read_manifest(drafter)
    vocab = read_vocab_map(drafter, manifest)
    assert vocab.problems == ()
    assert read_d2t(drafter, manifest) == vocab.d2t == (3,) * 64
    assert vocab.kept == tuple(range(3, 67))
    assert vocab.t2d_length == 128


def test_a_file_without_a_map(tmp_path: Path, healthy_pair: Pair) -> None:
    _, drafter = healthy_pair(tmp_path, tensors={"d2t": ..., "t2d": ...})
    manifest = read_manifest(drafter)
    assert read_d2t(drafter, manifest) is None
    assert read_vocab_map(drafter, manifest).kept is None


def test_negative_offsets(tmp_path: Path, healthy_pair: Pair) -> None:
    tensors = {"d2t": ("I64", (2,), struct.pack("<2q", 5, -1))}
    _, drafter = healthy_pair(tmp_path, tensors=tensors)
    assert read_d2t(drafter, read_manifest(drafter)) == (5, -1)


@pytest.mark.parametrize(
    ("spec", "says"),
    [(("BF16", (64,), None), "is BF16; it must hold whole"), (("I64", (8, 8), None), "is [8, 8]")],
)
def test_a_map_that_cannot_be_one(tmp_path: Path, healthy_pair: Pair, spec: Any, says: str) -> None:
    _, drafter = healthy_pair(tmp_path, tensors={"d2t": spec})
    vocab = read_vocab_map(drafter, read_manifest(drafter))
    assert vocab.d2t is None
    assert says in vocab.problems[0].detail


def test_reading_is_bounded(tmp_path: Path, healthy_pair: Pair) -> None:
    _, drafter = healthy_pair(tmp_path)
    tensor = read_manifest(drafter).tensors["d2t"]
    assert len(read_tensor_bytes(drafter, tensor, 512)) == 512
    with pytest.raises(CheckpointError, match="takes 512 bytes; at most 511 are read"):
        read_tensor_bytes(drafter, tensor, 511)
    with pytest.raises(CheckpointError, match="leads out of the checkpoint's folder"):
        read_tensor_bytes(drafter, replace(tensor, file="../x.safetensors"), 512)
    with pytest.raises(CheckpointError, match="there is no such file"):
        read_tensor_bytes(drafter, replace(tensor, file="x.safetensors"), 512)
    with pytest.raises(CheckpointError, match="it ends at byte"):
        read_tensor_bytes(drafter, replace(tensor, begin=1 << 40, end=(1 << 40) + 8), 512)


def test_the_digest_covers_contents_of_small_files(tmp_path: Path, healthy_pair: Pair) -> None:
    _, one = healthy_pair(tmp_path / "one")
    _, two = healthy_pair(tmp_path / "two")
    assert digest(one) == digest(two)
    assert str(digest(one)).startswith("sha256-content:")
    weights = two / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    assert digest(one) != digest(two)


def test_the_digest_of_large_files_covers_headers(tmp_path: Path, healthy_pair: Pair) -> None:
    _, one = healthy_pair(tmp_path / "one")
    _, two = healthy_pair(tmp_path / "two", tensors={"norm.weight": ("BF16", (16,), b"\1" * 32)})
    _, three = healthy_pair(tmp_path / "three", draft={"rope_theta": 1.0})
    assert digest(one, 100) == digest(two, 100)
    assert str(digest(one, 100)).startswith("sha256-headers:")
    assert digest(one, 100) != digest(three, 100)


def test_there_is_no_digest_of_what_cannot_be_read(tmp_path: Path) -> None:
    assert digest(tmp_path) is None
