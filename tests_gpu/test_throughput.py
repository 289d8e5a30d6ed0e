"""Is the output as fast as it must be?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eagle3_checks.rules.registry import codes


@pytest.mark.parametrize("code", codes("SPD"))
def test_output_speed(check: Callable[[str], None], code: str) -> None:
    check(code)
