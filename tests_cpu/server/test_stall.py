"""A start that shows no sign of life is ended, and says where it stood."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eagle3_checks.profile import Profile, Server
from eagle3_checks.server import ServerStalledError, ServerStartError, leftovers, open_server
from eagle3_checks.server.phases import Phase

pytestmark = pytest.mark.timeout(60)

STUCK = """
import faulthandler, signal, sys, threading
if {asked}:
    faulthandler.register(signal.SIGUSR1)
if {deaf}:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
def build_extension():
    threading.Event().wait()
print("[2026-12-01 04:47:32] server_args={{'tp_size': 1}}", flush=True)
print("[2026-12-01 04:47:40 TP0] Load weight begin. avail mem=1 GB", flush=True)
build_extension()
"""


def stuck(tmp_path: Path, code: str) -> Profile:
    script = tmp_path / "stuck.py"
    script.write_text(code)
    server = Server(
        device="cpu", command=(sys.executable, str(script)), stall_timeout=1.0, start_timeout=50.0
    )
    return Profile(server=server)


@pytest.mark.parametrize(
    ("asked", "deaf"),
    [(True, True), (False, True), (False, False)],
    ids=["on SIGUSR1", "on SIGABRT", "on SIGABRT first"],
)
def test_a_stuck_start_is_ended_with_its_stacks(
    asked: bool,  # noqa: FBT001
    deaf: bool,  # noqa: FBT001
    tmp_path: Path,
    artefacts: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    began = time.monotonic()
    with (
        pytest.raises(ServerStalledError) as caught,
        open_server(stuck(tmp_path, STUCK.format(asked=asked, deaf=deaf)), artefacts),
    ):
        pytest.fail("the server cannot be ready")
    assert time.monotonic() - began < 15
    error = caught.value
    assert error.phase is Phase.TARGET_WEIGHTS
    assert "no new log line, no CPU time and no change of memory for 1 s" in error.problem
    assert any("build_extension (" in stack for stack in error.stacks)
    text = str(error)
    assert "phase reached: loading the target's weights" in text
    assert "stuck in: " in text
    assert [left for left in leftovers() if str(tmp_path) in left.cmdline] == []


def test_a_stopped_process_is_named(tmp_path: Path, artefacts: Path) -> None:
    code = "import os, signal\nprint('up', flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)\n"
    with (
        pytest.raises(ServerStalledError) as caught,
        open_server(stuck(tmp_path, code), artefacts),
    ):
        pytest.fail("the server cannot be ready")
    assert any("is stopped by a signal and could not say" in s for s in caught.value.stacks)


def test_work_without_a_word_is_no_stall(tmp_path: Path, artefacts: Path) -> None:
    code = "import time\nend = time.monotonic() + 2.5\nwhile time.monotonic() < end: pass\n"
    with (
        pytest.raises(ServerStartError, match="ended before it was ready") as caught,
        open_server(stuck(tmp_path, code), artefacts),
    ):
        pytest.fail("the server cannot be ready")
    assert not isinstance(caught.value, ServerStalledError)


def test_a_server_that_only_answers_that_it_warms_up_is_stuck(
    stub_profile: Callable[..., Profile], artefacts: Path
) -> None:
    profile = stub_profile("--warming", "1000000", stall_timeout=2.0, start_timeout=50.0)
    with pytest.raises(ServerStalledError), open_server(profile, artefacts):
        pytest.fail("the server cannot be ready")


def test_an_aborted_server_leaves_no_core(tmp_path: Path, artefacts: Path) -> None:
    code = f"import os, resource\nresource.setrlimit(resource.RLIMIT_CORE, (-1, -1))\n{STUCK}"
    here = f"os.chdir({str(tmp_path)!r})\n"  # where a core would be written by default
    script = code.format(asked=False, deaf=True).replace("def build", f"{here}def build", 1)
    with pytest.raises(ServerStalledError), open_server(stuck(tmp_path, script), artefacts):
        pytest.fail("the server cannot be ready")
    assert "Fatal Python error: Aborted" in (artefacts / "server.log").read_text()
    assert not list(tmp_path.glob("core*"))
