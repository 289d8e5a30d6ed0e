from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from eagle3_checks.profile import Profile, Server
from eagle3_checks.server import ServerStartError, launch
from eagle3_checks.server.watchdog import Pace

Make = Callable[..., Profile]


def test_the_stop_command_ends_what_lives_elsewhere(
    stub_profile: Make, artefacts: Path, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    made = stub_profile()
    stop = ("sh", "-c", f"echo stop {{port}} {{gpus}} > {told}; echo said to the log")
    profile = replace(made, server=replace(made.server, stop_command=stop))
    with launch(profile, artefacts, device="cpu") as server:
        port = server.url.rpartition(":")[2]
        assert not told.exists()
    assert told.read_text().split() == ["stop", port, "all"]
    assert "said to the log" in server.log.read_text()


def test_a_stop_command_that_cannot_be_run_is_told(stub_profile: Make, artefacts: Path) -> None:
    made = stub_profile()
    profile = replace(made, server=replace(made.server, stop_command=("/nowhere/docker",)))
    with launch(profile, artefacts, device="cpu") as server:
        pass
    assert "server.stop_command: " in server.log.read_text()


def test_a_server_s_first_process_is_asked_before_its_ranks(
    artefacts: Path, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    rank = f"trap 'echo rank >> {told}; exit' TERM; while :; do sleep 0.05; done"
    first = f"trap 'echo first >> {told}; wait; exit' TERM; sh -c \"$RANK\" & wait; wait"
    profile = Profile(
        server=Server(
            device="cpu", command=("sh", "-c", first), env={"RANK": rank}, start_timeout=1
        )
    )
    with (
        pytest.raises(ServerStartError),
        launch(profile, artefacts, device="cpu", pace=Pace(lead=0.5, grace=5.0)),
    ):
        pytest.fail("the server cannot be ready")
    assert list(dict.fromkeys(told.read_text().split())) == ["first", "rank"]
