"""Does speculation change what is answered?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eagle3_checks.rules.registry import codes


@pytest.mark.parametrize("code", codes("LOS"))
def test_losslessness(check: Callable[[str], None], code: str) -> None:
    check(code)
