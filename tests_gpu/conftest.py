"""The gate's tests share one server, and every test of this folder belongs to the gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_checks.rules.registry import codes

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark this folder's tests as the gate's, and run files before server before measurements."""
    own = [item for item in items if HERE in item.path.parents]
    for item in own:
        item.add_marker(pytest.mark.gpu)
        if _code(item):
            item.add_marker(pytest.mark.rule(_code(item)))
    order = ["", *codes()]
    others = [item for item in items if item not in own]
    items[:] = others + sorted(own, key=lambda item: order.index(_code(item)))


def _code(item: pytest.Item) -> str:
    """Return the rule's code that a test asks about, or nothing."""
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("code", "")) if callspec else ""
