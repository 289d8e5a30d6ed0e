from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.profile import Model, Profile, Server, Speculation
from eagle3_checks.server.arguments import flags, without
from eagle3_checks.server.flags import (
    FlagError,
    api_key,
    build_command,
    build_environment,
    split_revision,
)

INSIDE = Path(sys.modules["eagle3_checks"].__path__[0]) / "inside"


def profile(target: str = "org/target", drafter: str = "org/drafter", **server: Any) -> Profile:
    return Profile(
        target=Model(path=target),
        drafter=Model(path=drafter),
        server=Server(**server),
        speculation=Speculation(steps=5, topk=4, draft_tokens=8),
    )


def test_the_command_on_a_gpu() -> None:
    command = build_command(
        profile(tp=8, args=("--mem-fraction-static", "0.8")), port=30000, device="cuda"
    )
    assert command[:3] == (sys.executable, "-m", "sglang.launch_server")
    assert dict(flags(command)) == {
        "--model-path": "org/target",
        "--speculative-algorithm": "EAGLE3",
        "--speculative-draft-model-path": "org/drafter",
        "--speculative-num-steps": "5",
        "--speculative-eagle-topk": "4",
        "--speculative-num-draft-tokens": "8",
        "--host": "127.0.0.1",
        "--port": "30000",
        "--tp-size": "8",
        "--mem-fraction-static": "0.8",
    }


def test_the_command_on_a_cpu() -> None:
    given = dict(flags(build_command(profile(), port=1, device="cpu")))
    assert given["--device"] == "cpu"
    assert given["--dtype"] == "float32"
    assert given["--prefill-attention-backend"] == "intel_amx"
    assert given["--decode-attention-backend"] == "intel_amx"
    assert given["--max-total-tokens"] == "8192"


def test_flags_of_the_profile_replace_those_of_the_cpu_engine() -> None:
    args = ("--dtype=bfloat16", "--max-total-tokens", "512", "--attention-backend", "torch_native")
    command = build_command(profile(args=args), port=1, device="cpu")
    given = [name for name, _ in flags(command)]
    assert given.count("--dtype") == given.count("--max-total-tokens") == 1
    assert "--prefill-attention-backend" not in given
    assert command[-len(args) :] == args


def test_another_interpreter_and_another_command() -> None:
    assert build_command(profile(python="/opt/py"), port=1, device="cuda")[0] == "/opt/py"
    own = build_command(
        profile(command=("serve", "--at=:{port}"), python="/opt/py"), port=7, device="cuda"
    )
    assert own[:3] == ("serve", "--at=:7", "--model-path")


def test_without_drafter_nothing_speculates() -> None:
    command = build_command(profile(drafter=""), port=1, device="cuda")
    assert not [name for name, _ in flags(command) if name.startswith("--speculative")]


def test_revisions_of_hub_ids_become_flags() -> None:
    given = dict(flags(build_command(profile("org/t@v1", "org/d@main/2"), port=1, device="cuda")))
    assert given["--model-path"] == "org/t"
    assert given["--revision"] == "v1"
    assert given["--speculative-draft-model-path"] == "org/d"
    assert given["--speculative-draft-model-revision"] == "main/2"


def test_a_folder_with_an_at_sign_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "org" / "d@v1").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert split_revision("org/d@v1") == ("org/d@v1", "")
    assert split_revision("org/d") == ("org/d", "")
    assert split_revision("/models/x@y/z") == ("/models/x@y/z", "")


@pytest.mark.parametrize(
    ("args", "key"),
    [
        (("--port", "1"), "server.port"),
        (("--tensor-parallel-size=2",), "server.tp"),
        (("--speculative-num-steps", "4"), "speculation.steps"),
        (("--model-path", "x"), "target.path"),
    ],
)
def test_what_the_profile_states_elsewhere_cannot_be_a_flag(
    args: tuple[str, ...], key: str
) -> None:
    with pytest.raises(FlagError, match=f"{args[0].partition('=')[0]}; set {key} instead"):
        build_command(profile(args=args), port=1, device="cuda")


def test_the_cpu_engine_has_one_rank() -> None:
    with pytest.raises(FlagError, match=r"server\.tp is 2"):
        build_command(profile(tp=2), port=1, device="cpu")


@given(st.lists(st.text(alphabet="-=ab", max_size=5)))
def test_every_flag_is_found_with_a_value(words: list[str]) -> None:
    found = list(flags(words))
    assert [name for name, _ in found] == [
        word.partition("=")[0] for word in words if word.startswith("--")
    ]


def test_the_environment_on_a_cpu(tmp_path: Path) -> None:
    base = {"PATH": "/bin", "PYTHONPATH": "/before", "EAGLE3_CHECKS_API_KEY": "k"}
    env = build_environment(
        profile(env={"OMP_NUM_THREADS": "2"}), device="cpu", probe_prefix=tmp_path / "p", base=base
    )
    assert env["SGLANG_USE_CPU_ENGINE"] == "1"
    assert env["TORCHDYNAMO_DISABLE"] == "1"
    assert env["EAGLE3_PROBE_FILE"] == str(tmp_path / "p")
    assert env["OMP_NUM_THREADS"] == "2"
    assert env["PATH"] == "/bin"
    folders = env["PYTHONPATH"].split(os.pathsep)
    assert folders == [str(INSIDE / "cpu"), str(INSIDE / "probe"), "/before"]
    assert "EAGLE3_CHECKS_API_KEY" not in env
    assert "SGLANG_PLUGINS" not in env
    assert "EAGLE3_CHECKS_API_KEY" in base


def test_the_environment_on_a_gpu_has_no_cpu_kernels(tmp_path: Path) -> None:
    env = build_environment(profile(), device="cuda", probe_prefix=tmp_path, base={})
    assert env["PYTHONPATH"] == str(INSIDE / "probe")
    assert "SGLANG_USE_CPU_ENGINE" not in env
    env = build_environment(profile(), device="cuda", probe_prefix=None, base={})
    assert "PYTHONPATH" not in env
    assert "EAGLE3_PROBE_FILE" not in env


def test_the_probe_is_let_in_where_plugins_are_restricted(tmp_path: Path) -> None:
    own = profile(env={"SGLANG_PLUGINS": "mine"})
    env = build_environment(own, device="cuda", probe_prefix=tmp_path, base={})
    assert env["SGLANG_PLUGINS"] == "mine,eagle3_probe"
    entries = (INSIDE / "probe").glob("*.dist-info/entry_points.txt")
    assert all("eagle3_probe =" in entry.read_text(encoding="utf-8") for entry in entries)


@pytest.mark.parametrize(
    ("target", "args", "offline"),
    [
        ("{here}", (), True),
        ("org/target", (), False),
        ("{here}", ("--tokenizer-path", "org/tokenizer"), False),
        ("{here}", ("--tokenizer-path={here}",), True),
    ],
)
def test_a_server_of_local_files_asks_no_hub(
    target: str,
    args: tuple[str, ...],
    offline: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    local = profile(
        target.format(here=tmp_path),
        str(tmp_path),
        args=tuple(a.format(here=tmp_path) for a in args),
    )
    env = build_environment(local, device="cuda", probe_prefix=None, base={})
    assert env.get("HF_HUB_OFFLINE") == ("1" if offline else None)
    env = build_environment(local, device="cuda", probe_prefix=None, base={"HF_HUB_OFFLINE": "0"})
    assert env["HF_HUB_OFFLINE"] == "0"


def test_the_key_of_a_launched_server_is_the_one_it_asks_for() -> None:
    environ = {"EAGLE3_CHECKS_API_KEY": "theirs"}
    assert api_key(profile(args=("--api-key=ours",)), environ) == "ours"
    assert api_key(profile(), environ) == "theirs"
    assert api_key(profile(), {}) == ""


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (("--a", "1", "--spec-x", "2", "--b"), ("--a", "1", "--b")),
        (("--spec-x=2", "--b", "3"), ("--b", "3")),
        (("--spec-x", "1", "2", "--b"), ("--b",)),
        (("--b", "--spec-x"), ("--b",)),
        ((), ()),
    ],
)
def test_flags_are_left_out_with_their_values(
    words: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    assert without(words, "--spec-") == kept


def test_a_profile_without_a_drafter_states_no_speculation() -> None:
    words = ("--speculative-algorithm", "EAGLE3", "--enable-return-aux-hidden-states")
    plain = profile(drafter="", args=words)
    command = build_command(plain, port=1, device="cpu")
    assert command[-3:] == words
    assert command.count("--speculative-algorithm") == 1
