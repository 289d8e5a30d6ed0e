"""A drafter of the hub is judged by its headers and small tensors; the weights stay there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.checkpoint import read_vocab_map
from eagle3_checks.checkpoint.hub import open_folder
from eagle3_checks.checkpoint.manifest import INDEX
from eagle3_checks.checkpoint.subject import Subject
from eagle3_checks.facts import FileFault
from eagle3_checks.inspection import inspect
from tests_cpu.hub.stand_in import COMMIT, TOKEN, StandIn

D2T, T2D = 64 * 8, 128
"""Bytes of the healthy drafter's maps."""


def header_length(data: bytes) -> int:
    return 8 + int.from_bytes(data[:8], "little")


def statuses(result: dict[str, Any]) -> set[tuple[str, str]]:
    return {(f["code"], f["message"]) for f in result["findings"] if f["status"] == "fail"}


def test_headers_config_and_maps_alone_are_served(hub: StandIn) -> None:
    result = inspect("org/drafter")
    assert statuses(result) == set()
    assert result["verdict"] == "pass"
    header = header_length(hub.files["model.safetensors"])
    assert hub.bytes_of("model.safetensors") == header + D2T + T2D
    assert hub.bytes_of("config.json") == len(hub.files["config.json"])
    assert not hub.bytes_of("training_state.pt")
    assert not hub.bytes_of("README.md")


def test_findings_are_those_of_the_folder(
    hub: StandIn, tmp_path: Path, tensor_file: Callable[..., bytes], healthy_tensors: Any
) -> None:
    hub.files["model.safetensors"] = tensor_file(healthy_tensors("layers.0"))
    for name, data in hub.files.items():
        (tmp_path / name).write_bytes(data)
    here, there = inspect(str(tmp_path), "", "0.5.9"), inspect("org/drafter", "", "0.5.9")
    assert statuses(there) == statuses(here) != set()
    assert there["subject"]["hashes"]["drafter"].startswith("sha256-headers:")


def test_the_values_of_the_maps_are_read(hub: StandIn) -> None:
    folder = open_folder("org/drafter", weights=True)
    subject = Subject("org/drafter", fetch=False)
    vocab = read_vocab_map(folder, subject.manifest)
    assert vocab.problems == ()
    assert vocab.d2t == (3,) * 64
    assert subject.vocab == vocab


def test_the_size_is_asked_for_where_the_hub_does_not_list_it(hub: StandIn) -> None:
    hub.sizes_told = False
    assert inspect("org/drafter")["verdict"] == "pass"


def test_shards_are_read_by_their_index(
    hub: StandIn, tensor_file: Callable[..., bytes], healthy_tensors: Any
) -> None:
    tensors = healthy_tensors()
    names = list(tensors)
    del hub.files["model.safetensors"]
    weight_map: dict[str, str] = {}
    for shard, some in (("a.safetensors", names[:5]), ("b.safetensors", names[5:])):
        hub.files[shard] = tensor_file({name: tensors[name] for name in some})
        weight_map |= dict.fromkeys(some, shard)
    hub.files[INDEX] = json.dumps({"weight_map": weight_map}).encode()
    assert inspect("org/drafter")["verdict"] == "pass"
    assert hub.bytes_of("a.safetensors") == header_length(hub.files["a.safetensors"])
    assert hub.bytes_of("b.safetensors") == header_length(hub.files["b.safetensors"]) + D2T + T2D
    del hub.files["b.safetensors"]
    problems = Subject("org/drafter", fetch=False).manifest.problems
    assert [p.fault for p in problems] == [FileFault.ABSENT_SHARD]


def test_the_target_is_read_too(hub: StandIn, tmp_path: Path) -> None:
    target = Subject(str(tmp_path), "org/drafter", fetch=False).target
    assert target is not None
    assert target.hidden_size == 16
    assert not hub.bytes_of("model.safetensors")


def test_its_tokenizer_is_read_too(hub: StandIn, tmp_path: Path) -> None:
    hub.files["tokenizer_config.json"] = (
        b'{"eos_token": "</s>", "added_tokens_decoder": {"2": {"content": "</s>"}}}'
    )
    hub.files["tokenizer.json"] = b'{"added_tokens": []}' + b" " * 100
    tokenizer = Subject(str(tmp_path), "org/drafter", fetch=False).tokenizer
    assert tokenizer is not None
    assert tokenizer.special == {2: "</s>"}
    assert set(tokenizer.files) == {"tokenizer_config.json", "tokenizer.json"}


@pytest.mark.parametrize("revision", ["main", "v1", "refs/pr/2"])
def test_a_revision_is_pinned_to_its_commit(hub: StandIn, revision: str) -> None:
    assert inspect(f"org/drafter@{revision}")["verdict"] == "pass"
    assert hub.served[0].path.endswith(f"/revision/{revision}")
    read = [s.path for s in hub.served if "/resolve/" in s.path]
    assert all(f"/resolve/{COMMIT}/" in path for path in read)


def test_the_token_goes_to_the_hub_alone_and_into_no_result(
    hub: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.private = hub.gated = True
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    result = inspect("org/drafter")
    assert result["verdict"] == "pass"
    assert TOKEN not in json.dumps(result)
    assert {s.token for s in hub.served if s.host == "hub"} == {f"Bearer {TOKEN}"}
    assert {s.token for s in hub.served if s.host == "cdn"} == {""}


def test_the_command_needs_nothing_but_the_endpoint(hub: StandIn, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path),
        "HF_TOKEN": TOKEN,
        "HF_HUB_OFFLINE": "0",
    }
    words = [sys.executable, "-m", "eagle3_checks", "inspect", "org/drafter", "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["subject"]["drafter"] == "org/drafter"
    assert TOKEN not in done.stdout + done.stderr
    assert not list(tmp_path.rglob("*.safetensors"))
