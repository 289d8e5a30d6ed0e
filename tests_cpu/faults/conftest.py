"""A gate over a stand-in that goes wrong, and what became of it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from eagle3_checks import measuring
from eagle3_checks.gate import Gate
from eagle3_checks.profile import Floors, Model, Profile, Prompts, Resolved, Server, Speed
from eagle3_checks.rules.registry import codes
from eagle3_checks.server import leftovers, pool
from eagle3_checks.shipped import shipped
from eagle3_checks.verdict import Finding, Verdict, exit_code

FAULTY = Path(__file__).with_name("faulty_sglang.py")
TINY = shipped("fixtures", "tiny")
HEALTHY = Path(__file__).parents[1] / "server" / "logs" / "healthy.log"
LIVE = ("SRV001", "SRV003", "SRV004", "SRV005", *codes("ACC"), *codes("SPD"))


@dataclass(frozen=True)
class Ended:
    """How one gate ended."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    seconds: float
    left: tuple[str, ...]
    """Processes of the server that still run, and files it left in shared memory."""

    @property
    def codes(self) -> tuple[int, int]:
        """Exit codes of the gate and of bisect."""
        return int(exit_code(self.verdict)), int(exit_code(self.verdict, bisect=True))

    @property
    def text(self) -> str:
        """All messages."""
        return "\n".join(f"{f.code} {f.status} {f.message}" for f in self.findings)

    def status(self, code: str) -> str:
        """Status of a rule's first finding."""
        return str(next(f.status for f in self.findings if f.code == code))


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("EAGLE3_") and name != "EAGLE3_CHECKS_CACHE":
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less long for news that a test knows not to come."""
    monkeypatch.setattr(measuring, "END_NOTICE_SECONDS", 0.3)
    monkeypatch.setattr(pool, "FLUSH_SECONDS", 0.5)


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """A profile of the tiny pair with limits that are met in a second."""
    prompts = tmp_path / "prompts.jsonl"
    lines = [json.dumps({"text": f"prompt {i}", "id": f"p{i}"}) for i in range(8)]
    prompts.write_text("\n".join(lines))
    return Profile(
        target=Model(path=str(TINY / "target")),
        drafter=Model(path=str(TINY / "drafter")),
        server=Server(
            device="cpu",
            sglang="0.5.23",
            start_timeout=20.0,
            stall_timeout=10.0,
            request_timeout=20.0,
            hang_timeout=2.0,
        ),
        prompts=Prompts(sets=(str(prompts),), max_new_tokens=8, concurrency=4),
        speed=Speed(concurrencies=(2,), requests=4),
        floors=Floors(accept_length=1.5),
    )


Run = Callable[..., Ended]


@pytest.fixture
def run(profile: Profile, tmp_path: Path) -> Run:
    """Run the gate's live rules over the stand-in: its flags, and keys of the profile."""

    def gate(*flags: str, **server: object) -> Ended:
        mark = str(tmp_path)
        command = (sys.executable, str(FAULTY), *flags)
        given = {"command": command, "env": {"FAULTS_OF": mark}, **server}
        if given.get("url"):
            given["command"] = ()
        made = dataclasses.replace(
            profile,
            server=dataclasses.replace(profile.server, **given),  # type: ignore[arg-type]
        )
        began = time.monotonic()
        resolved = Resolved(profile=made, origins={})
        with Gate(resolved, tmp_path / "artefacts", keep_going=True) as opened:
            for code in LIVE:
                opened.findings_of(code)
            findings, verdict = opened.findings(), opened.verdict()
        return Ended(verdict, findings, time.monotonic() - began, left_behind(mark))

    return gate


def left_behind(mark: str) -> tuple[str, ...]:
    """Return the processes that carry this mark in their environment, and still run."""
    found = []
    for process in leftovers():
        with contextlib.suppress(OSError):  # one of another test, gone meanwhile
            if mark.encode() in Path(f"/proc/{process.pid}/environ").read_bytes():
                found.append(process.cmdline)
    return tuple(found)


@pytest.fixture
def elsewhere() -> Iterator[Callable[..., tuple[str, subprocess.Popen[bytes]]]]:
    """Start a stand-in that is nobody's; return its address and process."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*flags: str) -> tuple[str, subprocess.Popen[bytes]]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        words = [sys.executable, str(FAULTY), *flags, "--no-probe", "--port", str(port)]
        words += ["--speculative-algorithm", "EAGLE3"]
        started.append(subprocess.Popen(words, stderr=subprocess.DEVNULL))
        return f"http://127.0.0.1:{port}", started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
