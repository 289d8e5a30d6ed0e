"""GPUs shared out among launches: who gets which, who waits, and when they are free again."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.profile import Profile, Server
from eagle3_checks.server import ServerStartError, launch
from eagle3_checks.server.slots import NoSlotError, Slot, take, units

pytestmark = pytest.mark.timeout(60)


def profile(gpus: int, tp: int = 1, **server: Any) -> Profile:
    return Profile(server=Server(gpus=gpus, tp=tp, start_timeout=1.0, **server))


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Callable[..., Slot]]:
    """Take a slot and hold it until the test ends."""
    with contextlib.ExitStack() as stack:

        def take_one(gpus: int, tp: int = 1, **environ: str) -> Slot:
            taken = take(profile(gpus, tp), "cuda", environ, folder=tmp_path / "slots")
            return stack.enter_context(taken)

        yield take_one


def test_eight_gpus_by_four_are_two_slots(hold: Callable[..., Slot]) -> None:
    first, second = hold(8, 4), hold(8, 4)
    assert first.environment("cuda") == {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    assert second.environment("cuda") == {"CUDA_VISIBLE_DEVICES": "4,5,6,7"}
    with pytest.raises(NoSlotError, match=r"no 4 of 8 gpus became free in 1 s"):
        hold(8, 4)


def test_servers_of_different_sizes_do_not_overlap(hold: Callable[..., Slot]) -> None:
    assert hold(4, 1).units == ("0",)
    assert hold(4, 2).units == ("2", "3")
    assert hold(4, 1).units == ("1",)


def test_the_visible_gpus_are_shared_out(hold: Callable[..., Slot]) -> None:
    visible = {"CUDA_VISIBLE_DEVICES": "4,GPU-5a/b,6,7"}
    assert hold(2, 1, **visible).units == ("4",)
    assert hold(2, 1, **visible).units == ("GPU-5a/b",)


def test_without_gpus_to_share_nothing_is_taken(hold: Callable[..., Slot]) -> None:
    assert hold(0).environment("cuda") == {}
    assert hold(0).fds == ()


def test_a_slot_is_free_again_once_it_is_given_up(tmp_path: Path) -> None:
    for _ in range(2):
        with take(profile(1), "cpu", {}, folder=tmp_path) as slot:
            assert slot.environment("cpu") == {"SGLANG_CPU_OMP_THREADS_BIND": "0"}


@pytest.mark.parametrize(
    ("gpus", "tp", "visible", "says"),
    [
        (4, 1, "0,1", "server.gpus is 4, but CUDA_VISIBLE_DEVICES shows 2: 0,1"),
        (2, 4, "", "server.tp is 4, but server.gpus shares out 2 only"),
    ],
)
def test_what_cannot_be_shared_out(gpus: int, tp: int, visible: str, says: str) -> None:
    with pytest.raises(NoSlotError, match=says):
        units(profile(gpus, tp), {"CUDA_VISIBLE_DEVICES": visible})


@given(st.integers(1, 8), st.lists(st.integers(1, 4), max_size=6))
def test_no_gpu_is_given_twice(gpus: int, sizes: list[int]) -> None:
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        seen: list[str] = []
        for tp in sizes:
            asked = Profile(server=Server(gpus=gpus, tp=tp, start_timeout=0.0))
            with contextlib.suppress(NoSlotError):
                slot = stack.enter_context(take(asked, "cuda", {}, folder=Path(home)))
                assert len(slot.units) == tp
                seen += slot.units
        assert len(seen) == len(set(seen)) <= gpus


def test_a_folder_of_artefacts_belongs_to_one_launch(
    stub_profile: Callable[..., Profile], artefacts: Path
) -> None:
    with launch(stub_profile(), artefacts, device="cpu") as first:
        with (
            pytest.raises(ServerStartError, match=r"another gate writes into .*--eagle3-artefacts"),
            launch(stub_profile(), artefacts, device="cpu"),
        ):
            pytest.fail("both would write one log")
        assert first.alive()
    with launch(stub_profile(), artefacts, device="cpu") as again:
        assert again.alive()


def test_a_lock_lasts_as_long_as_the_watchdog(
    stub_profile: Callable[..., Profile], artefacts: Path
) -> None:
    """However the owner ends: the server's last process may live a moment longer."""
    lock = artefacts / ".lock"

    def holds(pid: int) -> bool:
        found = set()
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # the descriptor that lists them
                found.add(link.readlink())
        return lock in found

    with launch(stub_profile(), artefacts, device="cpu") as server:
        assert holds(os.getpid())
        assert holds(server._watchdog.pid)
        assert not any(holds(process.pid) for process in server.processes())
    assert not holds(os.getpid())
