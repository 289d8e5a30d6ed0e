"""Starts that fail: what is said, how the run ends, and that nothing is left."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from eagle3_checks.server.phases import Phase, last_phase
from eagle3_checks.verdict import Verdict
from tests_cpu.faults.conftest import HEALTHY, Run

pytestmark = pytest.mark.timeout(60)
OFTEN = (Phase.LAUNCHED, Phase.DRAFT_WEIGHTS, Phase.WARM_UP)
"""Phases that every run tries; the others take the same way, and are for those who ask."""
REACHED = [
    pytest.param(phase, marks=() if phase in OFTEN else pytest.mark.slow, id=phase.name)
    for phase in Phase
    if phase < Phase.READY and phase is not Phase.GRAPH_CAPTURE
]
CAPTURE = "[2026-12-01 04:47:50] Capture cuda graph begin. This can take up to several minutes.\n"


def log_until(phase: Phase, tmp_path: Path) -> str:
    """Write the log of a start that gets so far; return its path."""
    lines = HEALTHY.read_text().splitlines(keepends=True)
    end = next(n for n in range(len(lines) + 1) if last_phase(lines[:n]) is phase)
    path = tmp_path / "start.log"
    path.write_text("".join(lines[:end]))
    return str(path)


@pytest.mark.parametrize("phase", REACHED)
def test_a_start_that_ends_says_how_far_it_got(run: Run, tmp_path: Path, phase: Phase) -> None:
    ended = run("--log", log_until(phase, tmp_path), "--ends", "3")
    assert ended.codes == (7, 125)
    assert "the server's process ended before it was ready (exit code 3)" in ended.text
    assert f"phase reached: {phase}" in ended.text
    assert ended.status("ACC001") == "skip"
    assert ended.left == ()


@pytest.mark.parametrize("phase", REACHED)
def test_a_start_that_hangs_says_where(run: Run, tmp_path: Path, phase: Phase) -> None:
    ended = run("--log", log_until(phase, tmp_path), "--stuck", stall_timeout=1.0)
    assert ended.codes == (7, 125)
    assert "the server's start is stuck: no new log line, no CPU time" in ended.text
    assert f"phase reached: {phase}" in ended.text
    assert ended.seconds < 10
    assert ended.left == ()


def test_graph_capture_is_a_phase_of_its_own(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "capture.log"
    failed = "Exception: Capture cuda graph failed: torch.OutOfMemoryError: CUDA out of memory.\n"
    log.write_text(CAPTURE + failed)
    ended = run("--log", str(log), "--ends", "1")
    assert ended.codes == (7, 125)
    assert "phase reached: capturing graphs" in ended.text
    assert "likely cause: the GPU has too little memory" in ended.text


def test_a_start_that_warms_up_is_waited_for(run: Run) -> None:
    ended = run("--warming", "2")
    assert ended.verdict is Verdict.PASS, ended.text
    assert ended.seconds > 2
    assert ended.left == ()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--warming", "1000"), "which answers 503, still warming up"),
        (("--health", "500"), "which answers 500"),
        (("--flood",), "which refuses connections"),
        (("--fault", "hangs", "--first", "1"), "did not come back within"),
        (("--fault", "reset", "--first", "1"), "whose connection broke"),
    ],
    ids=["503 for ever", "500 for ever", "log flood", "first request hangs", "reset"],
)
def test_what_is_never_ready_ends_at_the_deadline(
    run: Run, flags: tuple[str, ...], says: str
) -> None:
    ended = run(*flags, start_timeout=2.0)
    assert ended.codes == (7, 125)
    assert "the server was not ready after 2 s" in ended.text
    assert says in ended.text
    assert ended.seconds < 12
    assert ended.left == ()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            ("--fault", "status:400", "--first", "1"),
            "refuses to generate: POST /generate answered 400",
        ),
        (("--fault", "garbage", "--first", "1"), "answered no JSON"),
        (("--fault", "silent", "--first", "1"), "speculation is off"),
        (("--health", "401"), "answered 401: set EAGLE3_CHECKS_API_KEY"),
        (("--health", "404"), "what runs there is not SGLang"),
        (("--fault", "dies:7", "--first", "1"), "ended before it was ready (exit code 7)"),
        (("--fault", "killed", "--first", "1"), "killed by signal 9"),
    ],
    ids=["refuses", "no JSON", "no speculation", "no key", "no SGLang", "dies", "is killed"],
)
def test_what_cannot_become_ready_is_not_waited_for(
    run: Run, flags: tuple[str, ...], says: str
) -> None:
    ended = run(*flags)
    assert ended.codes == (7, 125)
    assert says in ended.text
    assert ended.seconds < 10
    assert ended.left == ()


def test_a_failed_start_is_not_tried_anew_for_each_rule(run: Run, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    count = ("sh", "-c", f"echo start >> {starts}; exit 3")
    assert run(command=count).codes == (7, 125)
    assert starts.read_text().splitlines() == ["start"]


def test_a_named_port_that_is_taken(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run(port=taken.getsockname()[1])
    assert ended.codes == (7, 125)
    assert "cannot be used" in ended.text


def test_a_command_that_is_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    for path in ("/nowhere/python", str(tmp_path / "text")):
        ended = run(command=(path,))
        assert ended.codes == (7, 125)
        assert "the server's command cannot be run" in ended.text


def test_no_space_for_the_log(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "server.log")

    monkeypatch.setattr(Path, "touch", full)
    ended = run()
    assert ended.codes == (7, 125)
    assert "No space left on device" in ended.text


def test_artefacts_that_are_no_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "artefacts").write_text("a file")
    ended = run()
    assert ended.codes == (7, 125)
    assert "artefacts" in ended.text
