"""Whatever happens to the process that owns a server, nothing of the server is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.profile import Profile
from eagle3_checks.server import RunningServer, launch, leftovers
from eagle3_checks.server.leftovers import sweep, temporary_prefix
from eagle3_checks.server.ports import ReservedPort
from eagle3_checks.server.watchdog import Pace

WaitGone = Callable[[Iterable[int]], None]
pytestmark = pytest.mark.timeout(60)
SHM = Path("/dev/shm")  # noqa: S108 - POSIX shared memory
OWNER = Path(__file__).parent / "owner.py"


@pytest.fixture
def ready(family: Any, tmp_path: Path) -> Iterator[Any]:
    """Where the owner reports that its server is ready."""
    fifo = type(family)(tmp_path / "ready")
    yield fifo
    fifo.close()


@pytest.fixture
def own(
    checkpoint: str, artefacts: Path, family: Any, ready: Any
) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a process that owns a stub server with a family."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*stub: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, str(OWNER), checkpoint, str(artefacts), str(ready.path)]
        process = subprocess.Popen(
            [*words, "--pids", str(family.path), *stub],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
    for left in leftovers():  # of a test that failed
        if str(family.path) in left.cmdline:
            sweep(left.run_id)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("when", ["starting", "ready"])
def test_nothing_outlives_an_owner_that_is_ended(  # noqa: PLR0913, PLR0917
    when: str,
    number: signal.Signals,
    own: Callable[..., subprocess.Popen[bytes]],
    family: Any,
    ready: Any,
    wait_gone: WaitGone,
) -> None:
    owner = own("--warming", "0" if when == "ready" else "1000000")
    pids = family.read()
    if when == "ready":
        pids += ready.read()
    owner.send_signal(number)
    owner.wait()
    wait_gone(pids)


def test_nothing_outlives_an_owner_whose_child_holds_its_pipes(
    own: Callable[..., subprocess.Popen[bytes]], family: Any, ready: Any, wait_gone: WaitGone
) -> None:
    owner = own("--fork")
    pids = family.read()
    holder = ready.read()[2]
    owner.kill()
    owner.wait()
    wait_gone(pids)
    os.kill(holder, signal.SIGKILL)


def test_shared_memory_goes_with_a_killed_owner_s_server(
    own: Callable[..., subprocess.Popen[bytes]], ready: Any, wait_gone: WaitGone
) -> None:
    ours = SHM / f"eagle3-checks-test-{os.getpid()}"
    owner = own("--shared-memory", str(ours))
    _, watchdog = ready.read()
    assert ours.exists()
    owner.kill()
    wait_gone([watchdog])
    assert not ours.exists()


def test_the_terminal_s_ctrl_c_reaches_the_owner_alone(
    own: Callable[..., subprocess.Popen[bytes]], family: Any, ready: Any
) -> None:
    owner = own()
    server, _, _ = family.read()
    _, watchdog, *_ = ready.read()
    groups = {os.getpgid(pid) for pid in (owner.pid, server, watchdog)}
    sessions = {os.getsid(pid) for pid in (owner.pid, server, watchdog)}
    assert len(groups) == len(sessions) == 3


@pytest.fixture
def running(
    stub_profile: Callable[..., Profile], family: Any, artefacts: Path
) -> Iterator[RunningServer]:
    profile = stub_profile("--pids", str(family.path))
    with launch(profile, artefacts, device="cpu", pace=Pace(0.0, 0.2)) as server:
        yield server


def test_nothing_outlives_a_killed_watchdog(
    running: RunningServer, family: Any, wait_gone: WaitGone
) -> None:
    pids = family.read()
    os.kill(running._watchdog.pid, signal.SIGKILL)
    wait_gone(pids)
    assert running.exited.wait(10)
    assert not running.alive()
    running.stop()
    assert not Path(running.temporary).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signalled_watchdog_ends_the_server(
    number: signal.Signals, running: RunningServer, family: Any, wait_gone: WaitGone
) -> None:
    pids = family.read()
    os.kill(running._watchdog.pid, number)
    wait_gone(pids)


def test_nothing_outlives_a_server_that_dies(
    running: RunningServer, family: Any, wait_gone: WaitGone
) -> None:
    server, *others = family.read()
    os.kill(server, signal.SIGKILL)
    wait_gone(others)
    assert running.exited.wait(10)
    assert running.exit_code == -signal.SIGKILL


def test_leftovers_of_a_killed_pair_are_found_and_ended(
    own: Callable[..., subprocess.Popen[bytes]], family: Any, ready: Any, wait_gone: WaitGone
) -> None:
    owner = own()
    server, child, grandchild = family.read()
    _, watchdog = ready.read()
    owner.send_signal(signal.SIGSTOP)  # so that it cannot end them itself
    (run_id,) = {left.run_id for left in leftovers() if left.pid == server}
    os.kill(watchdog, signal.SIGKILL)
    owner.kill()
    wait_gone([server])  # by the kernel: PR_SET_PDEATHSIG
    assert {left.pid for left in leftovers(run_id)} == {child, grandchild}
    assert "stub.py" in leftovers(run_id)[0].cmdline
    assert leftovers("another") == ()
    assert sweep(run_id) == ()
    wait_gone([child, grandchild])
    assert list(Path(tempfile.gettempdir()).glob(f"{temporary_prefix(run_id)}*")) == []


def test_ctrl_c_while_the_server_starts(
    stub_profile: Callable[..., Profile],
    artefacts: Path,
    family: Any,
    wait_gone: WaitGone,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pids: list[int] = []

    def interrupted(*_: Any) -> None:
        pids.extend(family.read())
        raise KeyboardInterrupt

    monkeypatch.setattr(RunningServer, "wait_ready", interrupted)
    profile = stub_profile("--pids", str(family.path))
    with (
        pytest.raises(KeyboardInterrupt),
        launch(profile, artefacts, device="cpu", pace=Pace(0.0, 0.2)),
    ):
        pytest.fail("the server cannot be ready")
    wait_gone(pids)


def test_an_exception_in_the_test_ends_the_server_and_frees_its_port(
    stub_profile: Callable[..., Profile], artefacts: Path, family: Any, wait_gone: WaitGone
) -> None:
    profile = stub_profile("--pids", str(family.path))
    with (
        pytest.raises(ZeroDivisionError),
        launch(profile, artefacts, device="cpu", pace=Pace(0.0, 0.2)) as server,
    ):
        raise ZeroDivisionError
    assert not server.alive()
    wait_gone(family.read())
    assert leftovers(server.run_id) == ()
    assert not Path(server.temporary).exists()
    with ReservedPort("127.0.0.1", int(server.url.rpartition(":")[2])):
        pass
