from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eagle3_checks.profile import Profile, Server
from eagle3_checks.server import ServerStartError, SpeculationOffError, attach, open_server
from eagle3_checks.server.http import Endpoint
from eagle3_checks.server.ports import ReservedPort
from eagle3_checks.server.readiness import wait_ready

pytestmark = pytest.mark.timeout(60)
STUB = Path(__file__).parent / "stub.py"


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Start a stub that nobody but the test ends; return its address."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*stub: str, ready: bool = True, key: str = "") -> str:
        with ReservedPort("127.0.0.1") as port:
            words = [sys.executable, "-I", "-S", str(STUB), *stub, "--port", str(port.port)]
            words += ["--api-key", key] if key else []
            started.append(subprocess.Popen(words, stderr=subprocess.DEVNULL))
            url = f"http://127.0.0.1:{port.port}"
            if ready:
                # A stub that refuses is up, too.
                with Endpoint(url, key) as endpoint, contextlib.suppress(ServerStartError):
                    wait_ready(endpoint, timeout=20, request_timeout=20, speculative=False)
        return url

    yield start
    for process in started:
        alive = process.poll() is None
        process.kill()
        process.wait()
        assert alive, "the stub was ended by someone"


def test_an_attached_server_is_described_and_never_stopped(
    serve: Callable[..., str], tmp_path: Path
) -> None:
    url = serve()
    profile = Profile(server=Server(url=f"{url}/"))
    with open_server(profile, tmp_path / "artefacts") as server:
        assert server.url == url
        assert server.alive()
        seen = server.seen()
        assert server.wiring() is None
        server.stop()
    with attach(url) as again:
        assert again.alive()
    assert not seen.launched
    assert seen.sglang == "0.5.23"
    assert seen.start_seconds is None
    assert seen.environment == {}
    assert seen.command == ()
    assert seen.info["hf_token"] == "***"
    assert not (tmp_path / "artefacts").exists()


def test_older_releases_are_described_by_their_older_paths(serve: Callable[..., str]) -> None:
    with attach(serve("--old-paths")) as server:
        assert server.info()["version"] == "0.5.23"
        assert server.info()["model_info"] == {"model_path": "/models/target"}


def test_the_key_comes_from_the_environment(
    serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = serve(key="sk-attached")
    with (
        pytest.raises(ServerStartError, match="set EAGLE3_CHECKS_API_KEY"),
        attach(url, timeout=20),
    ):
        pytest.fail("the key is missing")
    monkeypatch.setenv("EAGLE3_CHECKS_API_KEY", "sk-attached")
    with attach(url) as server:
        assert server.api_key == "sk-attached"
        assert "sk-attached" not in repr(server.seen())


def test_a_refusal_shows_no_key(serve: Callable[..., str]) -> None:
    url = serve("--generate-status", "500", key="plain-key")
    with pytest.raises(ServerStartError, match="stub refuses") as caught, attach(url, "plain-key"):
        pytest.fail("the server refuses")
    assert "plain-key" not in str(caught.value)


def test_a_server_that_does_not_speculate_is_refused(serve: Callable[..., str]) -> None:
    url = serve("--verify-steps", "-1")
    with pytest.raises(SpeculationOffError), attach(url):
        pytest.fail("speculation is off")


def test_a_server_that_is_not_there_is_waited_for_shortly() -> None:
    with ReservedPort("127.0.0.1") as nobody:
        url = f"http://127.0.0.1:{nobody.port}"
        with (
            pytest.raises(ServerStartError, match=r"not ready after 0\.3 s") as caught,
            attach(url, timeout=0.3),
        ):
            pytest.fail("nobody listens")
    assert "refuses connections" in str(caught.value)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://host/", "localhost:30000", "http://", "http://u:p@host"]
)
def test_other_addresses_are_refused(url: str) -> None:
    with (
        pytest.raises(ValueError, match=r"not an http:// or https:// address|password"),
        attach(url),
    ):
        pytest.fail("the address is not one")


def test_an_attached_server_that_went_away_is_not_alive(serve: Callable[..., str]) -> None:
    with attach(serve()) as server:
        server.endpoint.url = "http://127.0.0.1:9"
        assert not server.alive()


def test_something_else_on_the_port_is_not_waited_for(serve: Callable[..., str]) -> None:
    url = serve()
    with (
        pytest.raises(ServerStartError, match="answered 404: what runs there is not SGLang"),
        attach(f"{url}/other"),
    ):
        pytest.fail("there is no server below that path")


def test_a_server_that_need_not_speculate(serve: Callable[..., str], tmp_path: Path) -> None:
    url = serve("--verify-steps", "-1")
    with pytest.raises(SpeculationOffError), attach(url):
        pass
    profile = Profile(server=Server(url=url))
    with open_server(profile, tmp_path, speculative=False) as server:
        assert server.alive()
