"""How long a start takes, as far as earlier ones tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eagle3_checks.profile import Model, Profile, Server
from eagle3_checks.server.estimate import CACHE, cache_folder, expected, remember

HERE = Profile(drafter=Model(path="/d/one"), server=Server(tp=2))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "starts.json"


def test_the_median_of_the_last_starts_is_expected() -> None:
    assert expected(HERE) is None
    for seconds in (900.0, 20.0, 21.0, 40.0, 22.0, 23.0):
        remember(HERE, seconds)
    assert expected(HERE) == 22.0


@pytest.mark.parametrize(
    "other",
    [
        replace(HERE, drafter=Model(path="/d/two")),
        replace(HERE, server=Server(tp=4)),
        replace(HERE, server=Server(tp=2, args=("--page-size", "16"))),
    ],
)
def test_starts_of_others_say_nothing(other: Profile) -> None:
    remember(HERE, 20.0)
    assert expected(other) is None


def test_limits_and_ports_change_no_start() -> None:
    remember(HERE, 20.0)
    assert expected(replace(HERE, server=Server(tp=2, port=5, start_timeout=9.0))) == 20.0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": 3}', '{"x": ["a"]}'])
def test_a_damaged_cache_is_done_without(cache: Path, text: str) -> None:
    cache.parent.mkdir()
    cache.write_text(text)
    assert expected(HERE) is None
    remember(HERE, 20.0)
    assert expected(HERE) == 20.0


def test_a_cache_that_cannot_be_written_is_done_without(cache: Path) -> None:
    cache.parent.write_text("a file")
    remember(HERE, 20.0)
    assert expected(HERE) is None


def test_the_cache_is_where_the_environment_says() -> None:
    assert cache_folder({CACHE: "/x"}) == Path("/x")
    assert cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/eagle3-checks")
    assert cache_folder({}) == Path("~/.cache/eagle3-checks").expanduser()
