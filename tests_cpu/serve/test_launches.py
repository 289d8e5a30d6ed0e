"""Launch after launch of the real server, meant for two workers: ``-n 2 -m slow``."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from eagle3_checks.server import leftovers, open_server
from eagle3_checks.server.ports import ReservedPort
from eagle3_checks.server.running import RunningServer
from eagle3_checks.settings import resolve
from tests_cpu.serve.test_interruptions import processes_of

LAUNCHES = 50


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(LAUNCHES))
def test_a_launch_among_many(tmp_path: Path, number: int) -> None:
    profile = resolve("tiny").profile
    artefacts = tmp_path / f"run-{number}"
    before = {str(path) for path in Path("/dev/shm").glob("psm_*")}  # noqa: S108
    with open_server(profile, artefacts) as server:
        assert isinstance(server, RunningServer)
        assert server.endpoint.probe(60.0)["spec_verify_ct"] >= 1
        assert server.symptoms() == ()
        assert server.processes()
    assert list(processes_of(artefacts)) == []
    assert leftovers(server.run_id) == ()
    assert not Path(server.temporary).exists()
    ours = {str(path) for path in Path("/dev/shm").glob("psm_*")} - before  # noqa: S108
    assert not ours or leftovers()  # those of the other worker's launch at most
    with ReservedPort("127.0.0.1", urlsplit(server.url).port or 0):
        pass  # free again
