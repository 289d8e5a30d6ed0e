"""The port of a launched server: named, lost, or another's."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.profile import Profile, Server
from eagle3_checks.server import (
    PortTakenError,
    RunningServer,
    ServerStartError,
    open_server,
)
from eagle3_checks.server import open as opening
from eagle3_checks.server.signatures import symptoms

Make = Callable[..., Profile]
pytestmark = pytest.mark.timeout(60)


def test_the_port_can_be_named_and_used_again_at_once(stub_profile: Make, artefacts: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for _ in range(2):
        with open_server(stub_profile(port=port), artefacts) as server:
            assert server.url == f"http://127.0.0.1:{port}"


def test_a_named_port_in_use_is_reported_before_anything_is_started(
    stub_profile: Make, artefacts: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(PortTakenError, match=f"port {port} on 127.0.0.1 cannot be used"),
            open_server(stub_profile(port=port), artefacts),
        ):
            pytest.fail("the server cannot be ready")
    assert not (artefacts / "server.log").exists()


@pytest.mark.parametrize(("lost", "attempts"), [(1, 2), (9, opening.PORT_ATTEMPTS)])
def test_a_free_port_lost_to_another_process_is_replaced(
    lost: int,
    attempts: int,
    stub_profile: Make,
    artefacts: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    urls: list[str] = []
    ready = RunningServer.wait_ready

    def wait_ready(self: RunningServer, profile: Profile, tell: Any) -> None:
        urls.append(self.url)
        if len(urls) <= lost:
            line = "[Errno 98] error while attempting to bind on address: address already in use"
            raise ServerStartError("the process ended", symptoms=symptoms([line]))
        ready(self, profile, tell)

    monkeypatch.setattr(RunningServer, "wait_ready", wait_ready)
    if attempts > lost:
        with open_server(stub_profile(), artefacts) as server:
            assert server.url == urls[-1]
    else:
        with pytest.raises(ServerStartError), open_server(stub_profile(), artefacts):
            pytest.fail("the server cannot be ready")
    assert len(urls) == attempts


def test_a_wildcard_host_is_reached_on_loopback(stub_profile: Make, artefacts: Path) -> None:
    with open_server(stub_profile(host="0.0.0.0"), artefacts) as server:  # noqa: S104
        assert server.url.startswith("http://127.0.0.1:")


@pytest.fixture
def usurp(monkeypatch: pytest.MonkeyPatch, stub_profile: Make) -> Iterator[Callable[..., None]]:
    """Let another server take the port once the launched one is started."""
    usurpers: list[subprocess.Popen[bytes]] = []
    started = RunningServer.wait_started

    def prepare(environment: dict[str, str]) -> None:
        def wait_started(self: RunningServer) -> None:
            started(self)
            command = stub_profile("--warming", "0").server.command
            port = self.url.rpartition(":")[2]
            usurpers.append(
                subprocess.Popen(
                    [*command, "--port", port], env=environment, stderr=subprocess.DEVNULL
                )
            )

        monkeypatch.setattr(RunningServer, "wait_started", wait_started)

    yield prepare
    for process in usurpers:
        process.kill()
        process.wait()


def silent(tmp_path: Path) -> str:
    """Make an "interpreter" that runs and never listens."""
    path = tmp_path / "silent"
    path.write_text("#!/bin/sh\nexec tail -f /dev/null\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("own_command", [True, False])
def test_another_server_s_answer_is_not_taken_for_ours(
    own_command: bool,  # noqa: FBT001
    usurp: Callable[..., None],
    artefacts: Path,
    tmp_path: Path,
) -> None:
    # A command of the profile's own may serve from a container: there the other server must be
    # one of this suite to be told from it.
    usurp({"EAGLE3_RUN_ID": "another"} if own_command else {})
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server(
        device="cpu",
        python=silent(tmp_path),
        command=(silent(tmp_path),) if own_command else (),
        port=port,
    )
    with (
        pytest.raises(ServerStartError, match=rf"port {port} is already in use: process") as caught,
        open_server(Profile(server=server), artefacts),
    ):
        pytest.fail("another server answered")
    assert [symptom.signature.name for symptom in caught.value.symptoms] == ["port-in-use"]


def test_a_server_behind_a_command_of_its_own_may_live_elsewhere(
    usurp: Callable[..., None], artefacts: Path, tmp_path: Path
) -> None:
    usurp({})
    profile = Profile(server=Server(device="cpu", command=(silent(tmp_path),)))
    with open_server(profile, artefacts) as server:
        assert server.info()["version"] == "0.5.23"
