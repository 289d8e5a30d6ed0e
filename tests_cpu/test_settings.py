from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

from eagle3_checks.settings import ProfileError, flatten, resolve, schema
from eagle3_checks.shipped import names, shipped


def profile(folder: Path, text: str) -> str:
    path = folder / "p.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", names("profiles", ".toml"))
def test_shipped_profiles_are_valid(name: str) -> None:
    assert resolve(name, environ={}).profile.name == name


def test_template_explains_every_key_with_its_default() -> None:
    text = shipped("fixtures", "profiles", "template.toml").read_text()
    uncommented = re.sub(r"(?m)^# (?=\w+ = )", "", text)
    data = tomllib.loads(uncommented)
    keys = {f"{s}.{k}" for s, v in data.items() if isinstance(v, dict) for k in v}
    keys |= {k for k, v in data.items() if not isinstance(v, dict)}
    assert keys == set(schema())
    defaults, shown = flatten(resolve(environ={}).profile), flatten(resolve("template").profile)
    differing = {k for k in defaults if defaults[k] != shown[k]}
    assert differing == {"name"}


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("[specultion]\nsteps = 3", 1, "nearest valid one is 'speculation'"),
        ("[speculation]\n\nstep = 3", 3, "nearest valid one is 'speculation.steps'"),
        ("[speculation]\nsteps = '3'", 2, "speculation.steps is '3'; it must be a whole number"),
        ("[speculation]\nsteps = true", 2, "must be a whole number"),
        ("[speculation]\nsteps = 5", 2, "a chain has steps + 1 = 6 draft tokens"),
        ("[speculation]\nsteps=1\ntopk=2\ndraft_tokens=4", 4, "more than the tree holds"),
        ("[speculation]\nsteps = 0\ndraft_tokens = 1", 2, "0 is below the smallest"),
        ("[server]\ndevice = 'gpu'", 2, "must be one of ('auto', 'cuda', 'cpu')"),
        ("[server]\nargs = 'x'", 2, "it must be a list"),
        ("[server]\nargs = [1]", 2, "server.args[0] is 1; it must be a text in quotes"),
        ("[server.env]\nA = 3", 1, "server.env.A is 3"),
        ("server = 3", 1, "must be a table"),
        ("[server]\nport = 99999", 2, "99999 is above the largest port, 65535"),
        ("[floors]\naccept_length = nan", 2, "must be a number"),
        ("[floors]\naccept_length = 9.0", 2, "cannot be reached"),
        ("[floors]\naccept_rate = 45", 2, "give a share, 0.45 for 45 %"),
        ("[floors.tokens_per_second]\n3 = 1.0", 1, "concurrency '3' is not measured"),
    ],
)
def test_a_bad_profile_names_file_line_and_what_was_expected(
    tmp_path: Path, text: str, line: int, expected: str
) -> None:
    path = profile(tmp_path, text)
    with pytest.raises(ProfileError) as caught:
        resolve(path, environ={})
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert expected in str(caught.value)


def test_invalid_toml_and_absent_profile(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"\.toml:2: not valid TOML: .*line 2"):
        resolve(profile(tmp_path, "\na = =\n"), environ={})
    with pytest.raises(ProfileError, match=r"\.toml:2: not valid TOML: .*end of document"):
        resolve(profile(tmp_path, "\na = [\n\n"), environ={})
    with pytest.raises(ProfileError, match=r"no profile .nope.: .*built-in ones are .*tiny"):
        resolve("nope", environ={})
    (tmp_path / "p.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ProfileError, match="UTF-8"):
        resolve(str(tmp_path / "p.toml"), environ={})


def test_a_profile_that_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ProfileError, match="it is no regular file; give the TOML file"):
            resolve(str(path), environ={})


def test_command_line_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    path = profile(tmp_path, "[server]\ntp = 2\nport = 5\n[prompts]\nlimit = 7")
    environ = {"EAGLE3_CHECKS_SERVER_TP": "4", "EAGLE3_CHECKS_SERVER_PORT": "6"}
    resolved = resolve(path, {"server.tp": 8}, environ)
    server = resolved.profile.server
    assert (server.tp, server.port, resolved.profile.prompts.limit) == (8, 6, 7)
    assert resolved.origins["server.tp"] == "command line"
    assert resolved.origins["server.port"] == "environment EAGLE3_CHECKS_SERVER_PORT"
    assert resolved.origins["prompts.limit"] == f"{path}:5"
    assert resolved.origins["speculation.steps"] == "default"


def test_environment_short_names_and_errors() -> None:
    resolved = resolve(environ={"EAGLE3_CHECKS_DRAFT": "org/name", "EAGLE3_CHECKS_DEVICE": "cpu"})
    assert resolved.profile.drafter.path == "org/name"
    assert resolved.profile.server.device == "cpu"
    with pytest.raises(ProfileError, match="nearest valid one is 'EAGLE3_CHECKS_SERVER_TP'"):
        resolve(environ={"EAGLE3_CHECKS_SERVER_TPP": "1"})
    with pytest.raises(ProfileError, match="not a TOML value"):
        resolve(environ={"EAGLE3_CHECKS_SERVER_TP": "x"})


def test_the_api_key_is_no_setting() -> None:
    resolve(environ={"EAGLE3_CHECKS_API_KEY": "secret"})


def test_paths_start_from_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "drafter").mkdir(parents=True)
    path = profile(tmp_path / "a", "[drafter]\npath = 'drafter'\n[target]\npath = 'org/t@main'")
    monkeypatch.chdir(tmp_path)
    resolved = resolve(path, environ={}).profile
    assert resolved.drafter.path == str(tmp_path / "a" / "drafter")
    assert resolved.target.path == "org/t@main"
    assert resolve(environ={}, overrides={"drafter.path": "a/drafter"}).profile.drafter.path == str(
        tmp_path / "a" / "drafter"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[floors]\naccept_length = 1", "accept_length: 1.0 is reached by every server"),
        ("[floors]\naccept_rate = 0", "accept_rate: 0.0 is reached by every server"),
        ("[floors.tokens_per_second]\n1 = -5", "tokens_per_second: -5.0 is reached by every"),
        ("[floors.speed_up]\n8 = 0", "speed_up: 0.0 is reached by every server"),
        ("[judging]\nerror = 1.5", "error: 1.5 leaves nothing to judge; give less than 0.5"),
        ("[judging]\nmargin = 1", "margin: 1.0 leaves nothing to judge; give less than 1"),
        ("[speed]\nconcurrencies = [1, 8, 1]", "concurrencies: 1 is named twice"),
    ],
)
def test_what_nothing_could_miss_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    path = profile(tmp_path, text)
    with pytest.raises(ProfileError, match=rf"^{re.escape(path)}:\d: .*{re.escape(expected)}"):
        resolve(path, environ={})
