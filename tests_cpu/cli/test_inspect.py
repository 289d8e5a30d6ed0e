"""`eagle3-checks inspect`: formats, selection, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.cli import main

Pair = Callable[..., tuple[Path, Path]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return `run(*words)`: exit code, output, errors."""

    def go(*words: object) -> tuple[int, str, str]:
        code = main(["inspect", *map(str, words)])
        out, err = capsys.readouterr()
        return code, out, err

    return go


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def dropped(tmp_path: Path, healthy_pair: Pair) -> Path:
    """Give a drafter whose decoder layer SGLang does not find."""
    return healthy_pair(tmp_path / "pair", layer="decoder")[1]


def test_a_healthy_drafter(run: Run, tmp_path: Path, healthy_pair: Pair) -> None:
    target, drafter = healthy_pair(tmp_path)
    code, out, err = run(drafter, "--target", target)
    assert (code, err) == (0, "")
    assert "verdict    PASS" in out


def test_errors_give_one(run: Run, dropped: Path) -> None:
    code, out, _ = run(dropped)
    assert code == 1
    assert "KEY003" in out
    assert all(len(line) < 80 for line in out.splitlines() if str(dropped) not in line)


def test_a_selected_rule_alone_is_judged(run: Run, dropped: Path) -> None:
    code, out, _ = run(dropped, "--select", "key003,SRC001", "--format", "json")
    assert code == 1
    assert [f["code"] for f in json.loads(out)["findings"]] == ["SRC001", "KEY003"]


def test_a_family_is_selected_by_its_letters(run: Run, dropped: Path) -> None:
    code, out, _ = run(dropped, "--select", "VOC", "-v", "--format", "json")
    assert code == 0
    assert {f["family"] for f in json.loads(out)["findings"]} == {"VOC"}


def test_a_failed_prerequisite_of_a_selected_rule_stays(run: Run, tmp_path: Path) -> None:
    code, out, _ = run(tmp_path, "--select", "VOC001")
    assert code == 1
    assert "SRC001" in out


def test_what_is_ignored_is_shown_with_its_reason(run: Run, dropped: Path) -> None:
    words = ("--ignore", "KEY=renamed at load, by a patch", "--ignore", "FUS=seen")
    code, out, _ = run(dropped, *words)
    assert code == 0
    assert "IGNORED" in out
    assert "ignored (renamed at load, by a patch): " in " ".join(out.split())
    assert "ignored" in out.splitlines()[-1]


def test_the_longer_code_gives_the_reason(run: Run, dropped: Path) -> None:
    words = ("--ignore", "KEY=all", "--ignore", "KEY003=this one", "--format", "json")
    _, out, _ = run(dropped, *words)
    reasons = {f["code"]: f["evidence"].get("ignored") for f in json.loads(out)["findings"]}
    assert (reasons["KEY001"], reasons["KEY003"]) == ("all", "this one")


def test_what_is_ignored_holds_nothing_back(run: Run, tmp_path: Path, healthy_pair: Pair) -> None:
    tensors = {"d2t": ("I64", (64,), bytes(512))}
    _, drafter = healthy_pair(tmp_path, tensors=tensors, target={"vocab_size": 9})
    (drafter / "b.safetensors").write_bytes(b"rubbish")
    code, out, _ = run(drafter, "--ignore", "SRC001=known", "--format", "json")
    codes = {f["code"] for f in json.loads(out)["findings"] if f["status"] == "fail"}
    assert code == 1
    assert "VOC002" in codes


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--select", "KEY0O1"), "the nearest is KEY001"),
        (("--select", "ZZZ"), "the families are"),
        (("--select", "K"), "no rule has this code"),
        (("--ignore", "KEX001=why"), "the nearest is KEY001"),
        (("--select", ","), "names no code"),
        (("--select", ""), "names no code"),
        (("--ignore", "KEY001=why,VOC=too"), "once for each code"),
        (("--ignore", "KEY001"), "the reason is missing"),
        (("--ignore", "KEY001= "), "the reason is missing"),
        (("--sglang", "0.1"), "older than"),
        (("--sglang", "new"), "is not a version"),
    ],
)
def test_what_is_meant_otherwise_is_a_usage_error(
    run: Run, dropped: Path, words: tuple[str, ...], says: str
) -> None:
    code, out, err = run(dropped, *words)
    assert (code, out) == (2, "")
    assert says in err


def test_nothing_judged_is_no_pass(run: Run, tmp_path: Path, healthy_pair: Pair) -> None:
    _, drafter = healthy_pair(tmp_path)
    code, out, _ = run(drafter, "--select", "FUS005")  # which needs a target
    assert code == 8
    assert "NOT-RUN" in out


def test_a_warning_alone_was_judged(run: Run, tmp_path: Path, healthy_pair: Pair) -> None:
    _, drafter = healthy_pair(tmp_path, target={"rope_theta": 5e5})
    code, out, _ = run(drafter, "--target", tmp_path / "target", "--select", "CFG011")
    assert code == 0
    assert "verdict    PASS   1 warning" in out


def test_annotations_name_the_file(
    run: Run, dropped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("pair/drafter", "--format", "github", "--ignore", "KEY002=known")
    assert code == 1
    lines = out.splitlines()
    assert lines[0].startswith("::error file=pair/drafter/config.json,title=KEY001 ")
    assert "%0Afix: " in lines[0]
    assert any(line.startswith("::notice ") and "ignored (known)" in line for line in lines)
    assert lines[-1].startswith("eagle3-checks: fail")


def test_annotations_cannot_be_forged(
    run: Run, tmp_path: Path, healthy_pair: Pair, healthy_tensors: Any
) -> None:
    name = "x\n::error::100% :,forged.weight"
    _, drafter = healthy_pair(tmp_path, tensors={name: ("BF16", (1,), None)})
    _, out, _ = run(drafter, "--format", "github")
    assert all(
        line.startswith(("::error file=", "::warning file=", "eagle3")) for line in out.splitlines()
    )
    assert "100%25" in out


def test_a_hub_id_has_no_file_to_mark(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    _, out, _ = run("org/nothing-of-the-sort", "--format", "github")
    assert out.startswith("::error title=SRC001 ")


def test_values_are_read_on_demand(run: Run, tmp_path: Path, healthy_pair: Pair) -> None:
    _, drafter = healthy_pair(tmp_path)
    for words, wanted in (((), "skip"), (("--values",), "")):
        _, out, _ = run(drafter, *words, "--format", "json")
        found = [f for f in json.loads(out)["findings"] if f["family"] == "VAL"]
        assert all((f["status"] == "skip") >= (wanted == "skip") for f in found)


@pytest.mark.parametrize("words", [("",), ("d", "--target", ""), ("d", "--sglang", "")])
def test_an_empty_argument_is_a_usage_error(run: Run, words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as left:
        run(*words)
    assert left.value.code == 2


def test_values_of_a_pipe_are_not_waited_for(run: Run, tmp_path: Path, healthy_pair: Pair) -> None:
    _, drafter = healthy_pair(tmp_path)
    (drafter / "model.safetensors").unlink()
    os.mkfifo(drafter / "model.safetensors")
    code, out, _ = run(drafter, "--values")
    assert code == 1
    assert "SRC001" in out


def test_control_characters_in_a_path_are_escaped(
    run: Run, tmp_path: Path, healthy_pair: Pair
) -> None:
    _, drafter = healthy_pair(tmp_path / "two\nlines\x1b[31m")
    _, out, _ = run(drafter, "--target", "no\nsuch")
    assert "/two\\nlines\\x1b[31m/drafter\n" in out
    assert "target     no\\nsuch\n" in out
    assert "\x1b" not in out


def test_a_terminal_that_cannot_show_a_name(tmp_path: Path, healthy_pair: Pair) -> None:
    _, drafter = healthy_pair(tmp_path / "dräfter")
    done = subprocess.run(
        [sys.executable, "-m", "eagle3_checks", "inspect", str(drafter)],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "dr\\xe4fter" in done.stdout
