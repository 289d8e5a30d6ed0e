from __future__ import annotations

import importlib
import importlib.metadata
import io
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from eagle3_checks import doctor

# The package hands on a function by this name.
found = importlib.import_module("eagle3_checks.server.leftovers")


class Hub(BaseHTTPRequestHandler):
    status = 200

    def do_HEAD(self) -> None:
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with SGLang and a hub, without a GPU or leftovers."""
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.5.23")
    monkeypatch.setattr(doctor, "detect_device", lambda: None)
    monkeypatch.setattr(doctor, "remains", lambda: found.Remains(processes=(), folders=()))
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
        yield
        server.shutdown()
        thread.join()


def report() -> tuple[int, str]:
    out = io.StringIO()
    return doctor.examine(out), out.getvalue()


def words(text: str) -> str:
    """Return the text on one line."""
    return " ".join(text.split())


def test_a_machine_with_sglang_and_the_tiny_pair_is_ready() -> None:
    code, text = report()
    assert code == 0
    assert "0.5.23, judged as 0.5.23" in text
    assert "serves EAGLE-3; for small models" in text
    assert "answers; no HF_TOKEN" in words(text)
    assert "none of earlier runs" in text
    assert text.endswith("a gate can run here\n")
    paths = (sys.executable, os.fspath(Path.cwd()), tempfile.gettempdir())
    assert all(len(line) <= 80 for line in text.splitlines() if not any(p in line for p in paths))


def test_without_sglang_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    code, text = report()
    assert code == 1
    assert "-> pip install 'eagle3-checks[sglang]'" in text
    assert text.endswith("a gate cannot run here yet\n")


@pytest.mark.parametrize("version", ["0.3.0", "nonsense"])
def test_a_version_that_cannot_be_judged(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    assert report()[0] == 1


def test_no_gpu_and_no_cpu_engine_is_no_place_for_a_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.5.10")
    code, text = report()
    assert code == 1
    assert "-> serve on a GPU host, or install SGLang 0.5.16 or later" in words(text)
    monkeypatch.setattr(doctor, "detect_device", lambda: "cuda")
    monkeypatch.setattr(doctor, "ask_gpus", lambda _: ("NVIDIA H200, 570.1, 143771, 4",))
    assert report()[0] == 0


def test_gpus_are_named_with_their_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "detect_device", lambda: "cuda")
    row = "NVIDIA H200, 570.124.06, 143771, "
    monkeypatch.setattr(doctor, "ask_gpus", lambda _: (f"{row}4", f"{row}99000", f"{row}[N/A]"))
    code, text = report()
    assert code == 0
    assert "3 x NVIDIA H200, driver 570.124.06" in text
    assert "-> GPU 1 has memory in use" in text


def test_a_driver_that_does_not_answer_keeps_a_gate_from_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "detect_device", lambda: "cuda")
    monkeypatch.setattr(doctor, "ask_gpus", lambda _: ())
    code, text = report()
    assert code == 1
    assert "driver does not answer" in text


def test_a_gate_can_do_without_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hub, "status", 502)
    assert "answers 502; local folders remain" in words(report()[1])
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    code, text = report()
    assert code == 0
    assert "cannot be reached (ConnectionError)" in words(text)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "off (HF_HUB_OFFLINE)" in report()[1]


def test_a_full_disk_keeps_a_gate_from_running(monkeypatch: pytest.MonkeyPatch) -> None:
    used = shutil.disk_usage("/")._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: used)
    code, text = report()
    assert code == 1
    assert "-> free a gibibyte in" in text
    assert "--shm-size" in text


def test_leftovers_come_with_the_command_that_removes_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    orphan = subprocess.Popen(
        [sys.executable, "-c", "input()"],
        env={**os.environ, "EAGLE3_RUN_ID": "feedface-1"},
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    kept, left = tmp_path / "e3-feedface-x", tmp_path / "e3-0badcafe-y"
    for folder in (kept, left):
        folder.mkdir()
        os.utime(folder, (0, 0))
    (tmp_path / "e3-12345678-z").mkdir()  # of a launch that begins just now
    with orphan:
        seen = found.remains()
        orphan.kill()
    assert orphan.pid in {process.pid for process in seen.processes}
    assert seen.folders == (left,)
    monkeypatch.setattr(doctor, "remains", lambda: seen)
    code, text = report()
    assert code == 0
    assert f"-> kill -9 {' '.join(str(p.pid) for p in seen.processes)} && rm -r {left}" in text


def test_a_launch_whose_owner_lives_is_no_leftover() -> None:
    words = [sys.executable, "-c", "input()", "watchdog.py", f"--owner={os.getpid()}"]
    environment = {**os.environ, "EAGLE3_RUN_ID": "cafe0001"}
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE) as gate:
        assert gate.stdin is not None
        assert "cafe0001" in {process.run_id for process in found.leftovers()}
        run_ids = {process.run_id for process in found.remains().processes}
        gate.stdin.write(b"\n")
    assert "cafe0001" not in run_ids
