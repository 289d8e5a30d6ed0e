"""Trials on the free slots of a machine or a cluster, through Ray."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle3_checks.sweep.grid import Trial
from eagle3_checks.sweep.trial import run_trial

HOW_TO_INSTALL = "a sweep needs Ray: pip install 'eagle3-checks[sweep]'"
RETRIES = 3
"""Times that a trial is given to another worker after its own has died."""


class SlotError(RuntimeError):
    """There is no Ray, or no slot that a trial fits on; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Slots:
    """Where trials run."""

    address: str = ""
    """A cluster's; empty for this machine alone."""
    count: int = 1
    """Trials at a time on this machine, where they need no GPU."""
    gpus: int = 0
    """GPUs that one trial takes; Ray assigns them."""


def run_all(
    trials: Sequence[Trial],
    folder: Path,
    slots: Slots,
    done: Callable[[Trial, str], None],
) -> Mapping[str, str]:
    """Run every trial once; returns why those without a result have none, by trial.

    `done` hears of each as it ends, with what went wrong or nothing. A trial whose worker dies is
    given to another one. Raises SlotError.
    """
    ray = _ray()
    failed: dict[str, str] = {}
    _start(ray, slots)
    try:
        _require(ray, slots)
        run = ray.remote(num_cpus=1, num_gpus=slots.gpus, max_retries=RETRIES)(run_trial)
        waiting = {run.remote(trial, folder): trial for trial in trials}
        while waiting:
            (ready,), _ = ray.wait(list(waiting))
            trial = waiting.pop(ready)
            problem = _problem(ray, ready)
            if problem:
                failed[trial.id] = problem
            done(trial, problem)
    finally:
        ray.shutdown()
    return failed


def _start(ray: Any, slots: Slots) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anyone
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if slots.address:
        ray.init(address=slots.address, **quiet)
        return
    ray.init(
        address="local",
        num_cpus=max(slots.count, slots.gpus and (os.cpu_count() or 1)),
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        **quiet,
    )


def _require(ray: Any, slots: Slots) -> None:
    """Refuse trials that would wait for ever. Raises SlotError."""
    found = int(ray.cluster_resources().get("GPU", 0))
    if found < slots.gpus:
        raise SlotError(
            f"a trial takes {slots.gpus} GPUs (server.tp), and Ray sees {found}; give --address of "
            "a cluster that has them, or --device cpu for the CPU engine"
        )


def _problem(ray: Any, ready: Any) -> str:
    """Return what kept a trial from its result, or nothing."""
    try:
        ray.get(ready)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        return f"{type(cause).__name__}: {cause}".partition("\n")[0]
    except ray.exceptions.RayError as error:
        return f"its worker died {RETRIES + 1} times: {type(error).__name__}"
    return ""


def _ray() -> Any:
    try:
        import ray  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise SlotError(HOW_TO_INSTALL) from error
    return ray
