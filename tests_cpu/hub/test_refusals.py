"""What goes wrong on the way to the hub is told as a person expects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.checkpoint import remote
from eagle3_checks.checkpoint.subject import Subject
from eagle3_checks.facts import FileFault, FileProblem
from eagle3_checks.inspection import inspect
from tests_cpu.hub.stand_in import TOKEN, StandIn


def problem(source: str) -> FileProblem:
    """Return the one problem that the headers' reader met."""
    (found,) = Subject(source, fetch=False).manifest.problems
    return found


def test_no_such_repository(hub: StandIn) -> None:
    found = problem("org/nothing")
    assert found.fault is FileFault.MISSING
    assert found.detail == (
        "there is no such folder, and the hub has no such repository, or hides it"
    )
    assert "log in with `hf auth login`, or set HF_TOKEN" in found.fix


def test_an_empty_revision(hub: StandIn) -> None:
    found = problem("org/drafter@")
    assert found.fault is FileFault.MISSING
    assert "the revision after @ is empty" in found.detail
    assert found.fix.startswith("write org/drafter for its main branch")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("https://huggingface.co/org/drafter", "org/drafter"),
        ("https://huggingface.co/org/drafter/tree/main", "org/drafter"),
        ("http://hub.example", "org/name"),
    ],
)
def test_a_web_address_is_told_as_one(source: str, name: str) -> None:
    found = problem(source)
    assert "it is a web address" in found.detail
    assert found.fix == f"write the hub id: {name}"


def test_a_private_repository_looks_like_none(hub: StandIn) -> None:
    hub.private = True
    assert "or hides it" in problem("org/drafter").detail


def test_another_account_is_named_as_the_cause(
    hub: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.private = True
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    found = problem("org/drafter")
    assert "the account whose token is set may not see it" in found.fix
    assert "hf_another" not in str(found)


def test_a_gated_repository(hub: StandIn) -> None:
    hub.gated = True
    found = problem("org/drafter")
    assert found.detail == "access to it is restricted (gated)"
    assert "ask for access on the page of org/drafter" in found.fix
    assert inspect("org/drafter")["verdict"] == "fail"


def test_a_token_that_is_not_accepted(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.behaviour = "bad token"
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    found = problem("org/drafter")
    assert "does not accept the token" in found.detail
    assert TOKEN not in str(found)


def test_no_such_revision(hub: StandIn) -> None:
    found = problem("org/drafter@v2")
    assert "no revision 'v2'" in found.detail
    assert found.fault is FileFault.MISSING


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        ("403", "gives no access to it (HTTP 403)"),
        ("429", "too many requests from here (HTTP 429)"),
        ("503", "it answers HTTP 503"),
        ("login page", "but not as a hub does"),
        ("another range", "another range than was asked for"),
        ("breaks off", "the connection broke off"),
        ("silent", "the connection timed out"),
    ],
)
def test_a_hub_that_misbehaves(
    hub: StandIn, monkeypatch: pytest.MonkeyPatch, behaviour: str, says: str
) -> None:
    monkeypatch.setattr(remote, "READ_SECONDS", 0.3)
    hub.behaviour = behaviour
    assert says in problem("org/drafter").detail


def test_bytes_that_drip_have_an_end(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "RANGE_SECONDS", -1.0)
    monkeypatch.setattr(remote, "_CHUNK", 16)
    assert "did not come within" in problem("org/drafter").detail


def test_a_server_without_ranges_is_read_where_the_file_is_small(hub: StandIn) -> None:
    hub.behaviour = "no ranges"
    assert inspect("org/drafter")["verdict"] == "pass"


def test_a_server_without_ranges_is_not_read_to_the_end(
    hub: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "WHOLE_BELOW", 32)
    hub.behaviour = "no ranges"
    assert "does not answer range requests" in problem("org/drafter").detail


def test_nobody_there(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    found = problem("org/drafter")
    assert "no connection can be made" in found.detail
    assert "HF_HUB_OFFLINE=1" in found.fix


def test_offline_says_so(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    found = problem("org/drafter")
    assert "HF_HUB_OFFLINE is set" in found.detail
    assert hub.served == []


def test_offline_reads_the_cache(
    hub: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commit = "f" * 40
    cached = tmp_path / "hub-cache" / "models--org--drafter"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(commit)
    (cached / "snapshots" / commit).mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (cached / "snapshots" / commit / name).write_bytes(hub.files[name])
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert inspect("org/drafter")["verdict"] == "pass"
    assert hub.served == []


def test_weights_in_pickle_form_alone(hub: StandIn) -> None:
    hub.files["pytorch_model.bin"] = hub.files.pop("model.safetensors")
    found = problem("org/drafter")
    assert found.fault is FileFault.PICKLE_ONLY
    assert not hub.bytes_of("pytorch_model.bin")


def test_no_weights_at_all(hub: StandIn) -> None:
    hub.files["step_9/model.safetensors"] = hub.files.pop("model.safetensors")
    del hub.files["training_state.pt"]
    found = problem("org/drafter")
    assert (found.fault, found.file) == (FileFault.MISSING, "org/drafter")
    assert "the folder step_9 in it has some" in found.detail


def test_no_config(hub: StandIn) -> None:
    del hub.files["config.json"]
    (found,) = Subject("org/drafter", fetch=False).draft.problems
    assert (found.fault, found.file) == (FileFault.MISSING, "config.json")


def test_a_truncated_upload(hub: StandIn) -> None:
    hub.files["model.safetensors"] = hub.files["model.safetensors"][:-7]
    assert problem("org/drafter").fault is FileFault.TRUNCATED


@pytest.mark.parametrize(
    "source", ["org/dr..after", "org/drafter@", "a/b/c", "./a/b", "~a/b", "\0"]
)
def test_what_is_no_id_is_not_asked_for(hub: StandIn, source: str) -> None:
    found = problem(source)
    assert "there is no such folder" in found.detail or "cannot be opened" in found.detail
    assert hub.served == []


def test_a_folder_comes_before_the_hub(
    hub: StandIn,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    healthy_pair: Callable[..., tuple[Path, Path]],
) -> None:
    healthy_pair(tmp_path / "org")
    monkeypatch.chdir(tmp_path)
    assert inspect("org/drafter")["verdict"] == "pass"
    assert hub.served == []


def test_every_refusal_is_a_finding(hub: StandIn) -> None:
    result: dict[str, Any] = inspect("org/nothing", "org/nothing")
    failed = {f["code"] for f in result["findings"] if f["status"] == "fail"}
    assert {"SRC001", "SRC002", "SRC003"} <= failed
    assert "Traceback" not in json.dumps(result)
