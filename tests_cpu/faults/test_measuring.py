"""Servers that go wrong while they are measured: never a verdict on the drafter."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from eagle3_checks.verdict import Verdict
from tests_cpu.faults.conftest import Run

pytestmark = pytest.mark.timeout(60)
Elsewhere = Callable[..., tuple[str, "object"]]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("dies:1", "the server ended while it was measured"),
        ("killed", "the server ended while it was measured"),
        ("crashes", "likely cause: a kernel read or wrote where it must not"),
        ("hangs", "the server hangs: no answer and no token, not even to a probe, for"),
        ("stops", "is stopped by a signal"),
    ],
)
def test_a_lost_server_is_no_verdict_on_the_drafter(run: Run, fault: str, says: str) -> None:
    ended = run("--fault", fault)
    assert ended.codes == (7, 125)
    assert ended.verdict is Verdict.INCONCLUSIVE
    assert says in ended.text
    assert ended.status("SRV003") == "inconclusive"
    assert ended.status("ACC001") == "skip"
    assert ended.seconds < 10
    assert ended.left == ()


@pytest.mark.parametrize("fault", ["dies:1", "hangs"])
def test_a_server_lost_while_speed_is_measured(run: Run, fault: str) -> None:
    ended = run("--fault", fault, "--first", "11")  # 1 to be ready, 8 for acceptance
    assert ended.codes == (7, 125)
    assert ended.status("ACC001") == "pass"
    assert ended.status("SPD001") == "skip"
    assert ended.seconds < 10
    assert ended.left == ()


def test_a_slow_server_is_no_hung_one(run: Run) -> None:
    ended = run("--fault", "slow", "--first", "4", "--every", "6", hang_timeout=1.0)
    assert ended.verdict is Verdict.PASS, ended.text
    assert ended.seconds > 3


def test_a_server_that_computes_is_given_longer(run: Run) -> None:
    ended = run("--fault", "compiles", "--first", "4", "--every", "100", hang_timeout=1.0)
    assert ended.verdict is Verdict.PASS, ended.text


def test_a_server_that_spins_ends_the_run_too(run: Run) -> None:
    ended = run("--fault", "spins", hang_timeout=1.0)
    assert ended.codes == (7, 125)
    assert "the server hangs" in ended.text
    assert ended.seconds < 12
    assert ended.left == ()


@pytest.mark.parametrize(
    ("fault", "every", "says"),
    [
        ("status:500", 3, "requests failed"),
        ("status:503", 1, "no request was answered"),
        ("reset", 3, "requests failed"),
        ("half", 3, "requests failed"),
        ("garbage", 3, "requests failed"),
        ("empty", 3, "requests failed"),
        ("list", 3, "requests failed"),
        ("silent", 1, "verify step"),
    ],
)
def test_bad_answers_are_no_verdict_on_the_drafter(
    run: Run, fault: str, every: int, says: str
) -> None:
    ended = run("--fault", fault, "--every", str(every), "--first", "2")
    assert ended.codes == (7, 125), ended.text
    assert says in ended.text
    assert ended.left == ()


def test_answers_may_come_in_any_order(run: Run) -> None:
    ended = run("--fault", "late")
    assert ended.verdict is Verdict.PASS, ended.text


def test_a_pool_that_leaks_fails(run: Run) -> None:
    ended = run("--leak", "384")
    assert ended.codes == (1, 1)
    assert "384 of 8192 tokens of the KV pool are still in use" in ended.text


def test_a_server_that_will_not_rest_fails(run: Run) -> None:
    ended = run("--flush", "400")
    assert ended.codes == (1, 1)
    assert "POST /flush_cache answered 400" in ended.text


@pytest.mark.parametrize("flag", ["--deaf", "--family"])
def test_nothing_is_left_of_a_server_that_will_not_go(run: Run, flag: str) -> None:
    ended = run(flag)
    assert ended.verdict is Verdict.PASS, ended.text
    assert ended.left == ()


# --- attached ----------------------------------------------------------------------------------


def test_a_drafter_swapped_under_the_address(run: Run, elsewhere: Elsewhere) -> None:
    url, _ = elsewhere("--swapped", "--first", "6")
    ended = run(url=url)
    assert ended.codes == (7, 125)
    assert (
        "another server answers than at the beginning: speculative_draft_model_path was "
        "'/models/drafter' and is '/models/other'"
    ) in ended.text


def test_another_server_than_the_profile_s(run: Run, elsewhere: Elsewhere) -> None:
    url, _ = elsewhere("--drafter", "/models/other")
    refused = run(url=url)
    assert refused.codes == (7, 125)
    assert "speculative_draft_model_path is '/models/other', drafter.path is" in refused.text
    assert "--eagle3-attach-anyway" in refused.text
    assert run(url=url, attach_anyway=True).verdict is Verdict.PASS


def test_others_requests_are_noticed(run: Run, elsewhere: Elsewhere) -> None:
    url, _ = elsewhere("--foreign", "17")
    ended = run(url=url)
    assert ended.verdict is Verdict.PASS
    assert ended.status("SRV005") == "fail"
    assert "17 requests" not in ended.text
    assert "the numbers are not its own" in ended.text


def test_one_s_own_requests_are_no_others(run: Run, elsewhere: Elsewhere) -> None:
    url, process = elsewhere()
    ended = run(url=url)
    assert ended.verdict is Verdict.PASS, ended.text
    assert ended.status("SRV005") == "pass"
    assert ended.status("SRV004") == "skip"
    assert process.poll() is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("fault", ["hangs", "stops", "dies:1"])
def test_an_attached_server_that_is_lost(run: Run, elsewhere: Elsewhere, fault: str) -> None:
    url, process = elsewhere("--fault", fault)
    ended = run(url=url)
    assert ended.codes == (7, 125), ended.text
    assert ended.status("SRV003") == "inconclusive"
    assert ended.seconds < 10
    if fault != "dies:1":
        assert process.poll() is None  # type: ignore[attr-defined]


def test_a_server_killed_from_outside(run: Run, elsewhere: Elsewhere, tmp_path: Path) -> None:
    url, process = elsewhere("--fault", "slow")
    threading.Timer(1.5, process.kill).start()  # type: ignore[attr-defined]
    ended = run(url=url)
    assert ended.codes == (7, 125), ended.text
    assert "the server ended while it was measured" in ended.text
    assert not (tmp_path / "artefacts" / "server.log").exists()
