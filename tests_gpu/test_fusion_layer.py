"""Does the fusion layer fit the hidden states that the target hands over?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eagle3_checks.rules.registry import codes


@pytest.mark.parametrize("code", codes("FUS"))
def test_fusion_width(check: Callable[[str], None], code: str) -> None:
    check(code)
