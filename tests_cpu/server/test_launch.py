from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.profile import Model, Profile, Server
from eagle3_checks.server import (
    NoDeviceError,
    RunningServer,
    ServerStartError,
    SpeculationOffError,
    device,
    launch,
    open_server,
)
from eagle3_checks.server.phases import Phase
from eagle3_checks.server.watchdog import Pace

Make = Callable[..., Profile]
SHM = Path("/dev/shm")  # noqa: S108 - POSIX shared memory
pytestmark = pytest.mark.timeout(60)


def test_a_server_is_waited_for_described_and_ended(
    stub_profile: Make, artefacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLANG_SOMETHING", "1")
    monkeypatch.setenv("SGLANG_API_TOKEN", "tok-123456")
    monkeypatch.setenv("SIMULATE_ACC_LEN", "3.0")
    monkeypatch.setenv("UNRELATED", "1")
    with open_server(stub_profile("--warming", "3"), artefacts) as server:
        assert server.alive()
        seen = server.seen()
        wiring = server.wiring()
    assert not server.alive()
    assert seen.launched
    assert seen.url == server.url
    assert seen.sglang == "0.5.23"
    assert seen.start_seconds is not None
    assert 0 < seen.start_seconds < 20
    assert seen.info["model_info"] == {"model_path": "/models/target"}
    assert seen.info["internal_states"] == [{"speculative_algorithm": "EAGLE3"}]
    assert seen.environment == {
        "SGLANG_API_TOKEN": "***",
        "SGLANG_SOMETHING": "1",
        "SGLANG_USE_CPU_ENGINE": "1",
        "SIMULATE_ACC_LEN": "3.0",
    }
    assert seen.command[:1] == (sys.executable,)
    assert seen.log == str(artefacts / "server.log")
    assert wiring is not None
    assert wiring.loads == ()


def test_a_process_that_ends_is_reported_with_code_phase_and_log(
    stub_profile: Make, artefacts: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text("[2026-12-01 04:47:32] server_args={'tp_size': 1}\n", encoding="utf-8")
    profile = stub_profile("--exit-code", "3", "--log", str(log))
    with pytest.raises(ServerStartError) as caught, open_server(profile, artefacts):
        pytest.fail("the server cannot be ready")
    assert caught.value.exit_code == 3
    assert caught.value.phase is Phase.ARGUMENTS
    assert caught.value.tail == tuple(f"line {n} of the log" for n in range(20, 60))
    text = str(caught.value)
    assert "exit code 3" in text
    assert "phase reached: arguments accepted" in text
    assert "line 20 of the log" in text
    assert "line 19 of the log" not in text


def test_a_process_that_is_killed_is_reported_with_the_signal(artefacts: Path) -> None:
    profile = Profile(server=Server(device="cpu", command=("sh", "-c", "kill -9 $$")))
    with (
        pytest.raises(ServerStartError, match="killed by signal 9") as caught,
        open_server(profile, artefacts),
    ):
        pytest.fail("the server cannot be ready")
    assert caught.value.exit_code == -9


def test_a_command_that_does_not_exist_says_so(artefacts: Path) -> None:
    profile = Profile(server=Server(device="cpu", command=("/nowhere/python",)))
    with (
        pytest.raises(ServerStartError, match=r"cannot be run: .*'/nowhere/python'"),
        open_server(profile, artefacts),
    ):
        pytest.fail("the server cannot be ready")


def test_a_server_that_is_never_ready_runs_into_the_deadline(
    stub_profile: Make, artefacts: Path
) -> None:
    profile = stub_profile("--warming", "1000000", start_timeout=1.0)
    with (
        pytest.raises(ServerStartError, match=r"not ready after 1 s\nphase .*\nwaited") as caught,
        open_server(profile, artefacts),
    ):
        pytest.fail("the server cannot be ready")
    assert caught.value.exit_code is None


@pytest.mark.parametrize(
    ("steps", "seen"), [("0", "spec_verify_ct = 0"), ("-1", "no spec_verify_ct")]
)
def test_a_server_without_verify_steps_is_not_ready(
    steps: str, seen: str, stub_profile: Make, artefacts: Path
) -> None:
    with (
        pytest.raises(SpeculationOffError, match=f"speculation is off: .* {seen}"),
        open_server(stub_profile("--verify-steps", steps), artefacts),
    ):
        pytest.fail("the server cannot be ready")


def test_a_server_without_drafter_need_not_speculate(stub_profile: Make, artefacts: Path) -> None:
    with open_server(stub_profile("--verify-steps", "-1", drafter=""), artefacts) as server:
        assert server.alive()


def test_a_refused_request_is_reported(stub_profile: Make, artefacts: Path) -> None:
    profile = stub_profile("--generate-status", "400", args=("--api-key", "k-98765"))
    with (
        pytest.raises(ServerStartError, match=r"answered 400: .*stub refuses") as caught,
        open_server(profile, artefacts),
    ):
        pytest.fail("the server cannot be ready")
    assert "started with: " in str(caught.value)
    assert "k-98765" not in str(caught.value)


def test_other_failures_are_not_tried_again(stub_profile: Make, artefacts: Path) -> None:
    with (
        pytest.raises(ServerStartError),
        open_server(stub_profile("--exit-code", "1"), artefacts),
    ):
        pytest.fail("the server cannot be ready")
    assert (artefacts / "server.log").read_text(encoding="utf-8").count("line 0 ") == 1


def test_a_launched_server_may_ask_for_a_key(stub_profile: Make, artefacts: Path) -> None:
    with open_server(stub_profile(args=("--api-key", "k-98765")), artefacts) as server:
        assert server.api_key == "k-98765"
        seen = server.seen()
    assert "k-98765" not in repr(seen)
    assert seen.info["api_key"] == "***"
    assert seen.info["max_total_tokens"] == 8192
    assert seen.info["tokenizer_path"] == "/models/target"


def test_no_secret_stays_in_the_log(stub_profile: Make, artefacts: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("server_args={'api_key': 'k-98765', 'port': 1}\n", encoding="utf-8")
    profile = stub_profile("--log", str(log), args=("--api-key", "k-98765"))
    with launch(profile, artefacts, device="cpu") as server:
        assert server.tail(100)[0] == "server_args={'api_key': ***, 'port': 1}"
        assert server.symptoms() == ()
        assert stat.S_IMODE(server.log.stat().st_mode) == 0o600
    assert "'api_key': '***', 'port': 1" in server.log.read_text(encoding="utf-8")
    assert stat.S_IMODE(server.log.stat().st_mode) == 0o600


def test_artefacts_of_an_earlier_launch_are_replaced(stub_profile: Make, artefacts: Path) -> None:
    artefacts.mkdir()
    (artefacts / "probe.123.jsonl").write_text('{"fact": "hello", "sglang": "0.4.0"}\n')
    (artefacts / "server.log").write_text("old\n")
    with launch(stub_profile(), artefacts, device="cpu") as server:
        assert server.wiring().sglang is None
        assert "old" not in server.tail(100)


def test_shared_memory_of_a_server_is_removed(
    stub_profile: Make, artefacts: Path, tmp_path: Path
) -> None:
    ours = SHM / f"eagle3-checks-test-{os.getpid()}"
    profile = stub_profile("--shared-memory", str(ours))
    with launch(profile, artefacts, device="cpu") as server:
        assert ours.exists()
        assert server.alive()
    assert not ours.exists()


def test_shared_memory_that_others_use_is_kept(stub_profile: Make, artefacts: Path) -> None:
    ours = SHM / f"eagle3-checks-test-{os.getpid()}"
    try:
        with launch(stub_profile("--shared-memory", str(ours)), artefacts, device="cpu"):
            used = ours.open("rb")
        with used:
            assert ours.exists()
    finally:
        ours.unlink()


def test_stopping_twice_is_stopping_once(stub_profile: Make, artefacts: Path) -> None:
    with launch(stub_profile(), artefacts, device="cpu") as server:
        server.stop()
        assert not server.alive()
        server.stop()
    assert server._watchdog.returncode is not None


def test_a_server_that_passes_over_sigterm_is_killed_after_the_grace(
    stub_profile: Make, artefacts: Path
) -> None:
    profile = stub_profile("--ignore-sigterm")
    with launch(profile, artefacts, device="cpu", pace=Pace(0.0, 0.2)) as server:
        pass
    assert server.exit_code == -9


def test_nothing_is_served_where_there_is_no_gpu(
    artefacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "detect_device", lambda: None)
    profile = Profile(target=Model(path="t"), drafter=Model(path="d"))
    with pytest.raises(NoDeviceError, match="no NVIDIA GPU"), open_server(profile, artefacts):
        pytest.fail("there is nothing to serve on")
    assert not artefacts.exists()


def test_neither_torch_nor_sglang_is_imported(tmp_path: Path) -> None:
    code = "import sys, eagle3_checks.server; print({'torch', 'sglang'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"


def test_proxies_of_the_environment_are_passed_over(
    stub_profile: Make, artefacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with open_server(stub_profile(), artefacts) as server:
        assert server.alive()


def test_processes_that_will_not_end_are_reported(
    stub_profile: Make, artefacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(self: RunningServer, message: dict[str, Any]) -> bool:
        return kept(self, {**message, "left": [4242]} if message["event"] == "ended" else message)

    kept = RunningServer._take
    monkeypatch.setattr(RunningServer, "_take", take)
    with (
        pytest.raises(RuntimeError, match=r"\[4242\] did not end"),
        launch(stub_profile(), artefacts, device="cpu"),
    ):
        pass
