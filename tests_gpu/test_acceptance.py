"""Does the target accept what the drafter proposes?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eagle3_checks.rules.registry import codes


@pytest.mark.parametrize("code", codes("ACC"))
def test_acceptance(check: Callable[[str], None], code: str) -> None:
    check(code)
