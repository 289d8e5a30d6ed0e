"""The gate's tests share one server, and every test of this folder belongs to the gate."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark this folder's tests as the gate's, and each with the code it asks about."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            code = getattr(item, "callspec", None) and item.callspec.params.get("code")
            if code:
                item.add_marker(pytest.mark.rule(code))
