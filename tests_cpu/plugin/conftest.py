from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# pytester drops what a run inside this process imports, and neither requests nor numpy can be
# imported twice.
import eagle3_checks.gate  # noqa: F401
from eagle3_checks.checkpoint.floats import numpy
from eagle3_checks.shipped import shipped

numpy()
FAKE = Path(__file__).with_name("fake_sglang.py")
TINY = shipped("fixtures", "tiny")

Write = Callable[..., Path]


@pytest.fixture
def write_profile(pytester: pytest.Pytester) -> Write:
    """Write a profile of the tiny pair served by the stand-in, with flags of its own."""

    def write(*flags: str, floors: str = "accept_length = 1.5", more: str = "") -> Path:
        prompts = pytester.path / "prompts.jsonl"
        lines = [json.dumps({"text": f"prompt {i}", "id": f"p{i}"}) for i in range(8)]
        prompts.write_text("\n".join(lines))
        command = json.dumps([sys.executable, str(FAKE), *flags])
        path = pytester.path / "profile.toml"
        path.write_text(
            f'[target]\npath = "{TINY / "target"}"\n[drafter]\npath = "{TINY / "drafter"}"\n'
            f'[server]\ndevice = "cpu"\ncommand = {command}\nstart_timeout = 20\n'
            f'sglang = "0.5.23"\n'
            f'[prompts]\nsets = ["{prompts}"]\nmax_new_tokens = 8\n'
            f"[speed]\nconcurrencies = [1, 2]\nrequests = 4\n[floors]\n{floors}\n{more}"
        )
        return path

    return write


@pytest.fixture
def run_gate(pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Run the gate's tests in a pytest of their own; in this process where workers allow it."""

    def run(*words: str) -> pytest.RunResult:
        own = pytester.runpytest_subprocess if "-n" in words else pytester.runpytest_inprocess
        return own(str(shipped("tests_gpu")), "-m", "gpu", "-p", "no:cacheprovider", *words)

    return run


@pytest.fixture
def served() -> Iterator[tuple[str, Callable[[], bool]]]:
    """Yield the address of a stand-in that someone else started, and whether it lives."""
    with stand_in("--speculative-algorithm", "EAGLE3") as started:
        yield started


@pytest.fixture
def served_plain() -> Iterator[str]:
    """Yield the address of a stand-in that someone else started without speculation."""
    with stand_in("--crowded") as (url, _):
        yield url


@pytest.fixture
def served_plain_dying() -> Iterator[str]:
    """Yield the address of one that ends while it is measured."""
    with stand_in("--crowded", "--dies-after", "6") as (url, _):
        yield url


@contextmanager
def stand_in(*flags: str) -> Iterator[tuple[str, Callable[[], bool]]]:
    """Start a stand-in that nobody but the caller ends; yield its address and whether it lives."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, str(FAKE), "--no-probe", "--port", str(port)]
    process = subprocess.Popen([*words, *flags])
    try:
        yield f"http://127.0.0.1:{port}", lambda: process.poll() is None
    finally:
        process.kill()
        process.wait()
