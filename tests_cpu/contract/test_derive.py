"""Deriving whole releases: wheels, the data file, the command, and the installed SGLang."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.contract.derive import reviewed
from eagle3_checks.contract.derive.__main__ import DATA, main
from eagle3_checks.contract.derive.record import derive, entries, render
from eagle3_checks.contract.derive.release import (
    RefusedError,
    find_wheels,
    open_installed,
    open_wheel,
)
from eagle3_checks.contract.derive.source import Sources
from eagle3_checks.contract.version import known_versions, records
from tests_cpu.contract.miniature import LLAMA, MODELS, miniature, write_wheel


@pytest.fixture
def all_reviewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviewed, "_listed", dict)


def test_the_installed_sglang_is_what_the_data_says() -> None:
    try:
        version = metadata.version("sglang")
    except metadata.PackageNotFoundError:
        pytest.skip("sglang is not installed: its data cannot be derived anew and compared")
    known = records(DATA.read_text())[version]
    found = derive(open_installed())
    assert {**found, "sha256": known["sha256"]} == known


def test_the_data_file_is_as_it_is_written() -> None:
    text = DATA.read_text()
    assert render(entries(records(text))) == text


def test_reviewed_forms_belong_to_known_versions() -> None:
    for forms in reviewed._listed().values():
        assert set(forms.values()) <= set(known_versions())


def test_a_wheel(tmp_path: Path) -> None:
    release = open_wheel(write_wheel(tmp_path))
    assert release.version == "9.9.9"
    assert release.pins() == {"torch": "9.0", "transformers": "5.0"}
    assert len(str(release.sha256)) == 64
    assert "class LlamaForCausalLM" in release.text(f"{MODELS}/llama.py")
    with pytest.raises(RefusedError, match=r"there is no nothing\.py"):
        release.text("nothing.py")


def test_two_pins_of_one_package_are_refused(tmp_path: Path) -> None:
    release = open_wheel(write_wheel(tmp_path))
    object.__setattr__(release, "requires", ("torch==1.0", "torch==2.0"))
    with pytest.raises(RefusedError, match="two versions of torch"):
        release.pins()


def test_wheels_in_a_folder(tmp_path: Path) -> None:
    for version in ("0.5.10", "0.5.9", "0.5.9.post1"):
        write_wheel(tmp_path, version)
    found = [wheel.name.split("-")[1] for wheel in find_wheels(tmp_path)]
    assert found == ["0.5.9", "0.5.9.post1", "0.5.10"]
    assert len(find_wheels(tmp_path, ["0.5.9"])) == 1
    with pytest.raises(FileNotFoundError, match=r"no wheel of SGLang 0\.5\.8"):
        find_wheels(tmp_path, ["0.5.8"])


def test_a_form_that_nobody_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    method = "LlamaForCausalLM._init_model"
    key, path = f"{MODELS}/llama.py:{method}", f"{MODELS}/llama.py"
    seen = reviewed.fingerprint(miniature(), path, method)
    monkeypatch.setattr(reviewed, "_listed", lambda: {key: {seen: "9.9.9"}})
    reviewed.check_reviewed(miniature())
    changed = miniature(llama=LLAMA.replace("LlamaModel(config)", "LlamaModel(config, 1)"))
    with pytest.raises(
        RefusedError, match=r"form that was not reviewed: 1; .*LlamaForCausalLM\._init"
    ):
        reviewed.check_reviewed(changed)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("return LlamaModel", "# a comment\n        return LlamaModel", True),
        ("return LlamaModel", '"""Build."""\n        return LlamaModel', True),
        (
            "(self, config):\n        return",
            "(self, config: Config) -> Model:\n        return",
            True,
        ),
        ("return LlamaModel", "x: int\n        return LlamaModel", True),
        ("return LlamaModel", "return LlamaModel2", False),
        ("def _init_model", "def _init_other", False),
    ],
)
def test_what_a_fingerprint_sees(old: str, new: str, same: bool) -> None:  # noqa: FBT001
    def seen(sources: Sources) -> str:
        return reviewed.fingerprint(sources, f"{MODELS}/llama.py", "LlamaForCausalLM._init_model")

    assert old in LLAMA
    assert (seen(miniature(llama=LLAMA.replace(old, new))) == seen(miniature())) is same


def test_changes_are_written_and_read_back() -> None:
    first: dict[str, Any] = {
        "llama": {"a": 1, "b": [["x", "y"]]},
        "meta": {"c": None, "d": "k"},
        "targets": {"A": "next", "B": "none"},
        "mla": None,
    }
    second = {**first, "llama": {"a": 2, "b": [["x", "y"]]}, "targets": {"A": "next", "C": "none"}}
    third = {**second, "meta": {"c": "k", "d": None}, "mla": {"e": True}}
    full = {"1.0": first, "1.1": second, "1.10": third, "1.2": second}
    found = entries(full)
    assert [entry["version"] for entry in found] == ["1.0", "1.1", "1.2", "1.10"]
    assert found[1] == {
        "version": "1.1",
        "llama": {"a": 2},
        "targets": {"B": None, "C": "none"},
    }
    assert found[2] == {"version": "1.2"}
    assert records(render(found)) == full


@pytest.mark.usefixtures("all_reviewed")
def test_the_command_writes_and_compares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_wheel(tmp_path)
    output = tmp_path / "data.json"
    words = ["--wheels", str(tmp_path), "--output", str(output)]
    assert main(words) == 0
    [entry] = json.loads(output.read_text())
    assert entry["version"] == "9.9.9"
    assert entry["targets"] == {"LlamaForCausalLM": "next", "Phi3ForCausalLM": "next"}
    assert main([*words, "9.9.9", "--check"]) == 0
    write_wheel(tmp_path, server_args="class ServerArgs:\n    other: int = 0\n")
    before = output.read_text()
    capsys.readouterr()
    assert main([*words, "--check"]) == 1
    said = capsys.readouterr().err
    assert "SGLang 9.9.9: forward_hooks is False; the data says True" in said
    assert output.read_text() == before


def test_the_command_writes_nothing_where_something_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_wheel(tmp_path)
    output = tmp_path / "data.json"
    assert main(["--wheels", str(tmp_path), "--output", str(output)]) == 1
    said = capsys.readouterr().err
    assert "SGLang 9.9.9: refused: " in said
    assert "read each, and add its fingerprint to reviewed.json" in said
    assert not output.exists()


def test_the_command_wants_to_know_what_to_derive(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([])
    assert exit_.value.code == 2
    assert "give versions, --wheels or --installed" in capsys.readouterr().err
