"""Does the running server feed the drafter what it was trained on?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eagle3_checks.rules.registry import codes


@pytest.mark.parametrize("code", codes("SRV"))
def test_server_is_what_the_profile_says(check: Callable[[str], None], code: str) -> None:
    check(code)


@pytest.mark.parametrize("code", codes("WIR"))
def test_wiring_inside_the_server(check: Callable[[str], None], code: str) -> None:
    check(code)
