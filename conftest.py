"""Settings that every test of the project shares; the gate's need pytest alone."""

from __future__ import annotations

from typing import Any

import pytest

pytest_plugins = ["pytester"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let idle workers take tests from the others: those with a server last a hundred times longer.

    As `--dist worksteal`, which pytest's settings cannot hold: it is refused without `-n`.
    """
    from xdist.scheduler import WorkStealingScheduling  # noqa: PLC0415 - only where xdist is

    return WorkStealingScheduling(config, log)
