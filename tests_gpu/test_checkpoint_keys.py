"""Will SGLang load every tensor of the drafter, and leave no parameter at a random value?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eagle3_checks.rules.registry import codes


@pytest.mark.parametrize("code", codes("SRC"))
def test_files_are_readable(check: Callable[[str], None], code: str) -> None:
    check(code)


@pytest.mark.parametrize("code", codes("KEY"))
def test_names_fit_the_loader(check: Callable[[str], None], code: str) -> None:
    check(code)


@pytest.mark.parametrize("code", codes("CFG"))
def test_config_fits_the_engine(check: Callable[[str], None], code: str) -> None:
    check(code)


@pytest.mark.parametrize("code", codes("VOC"))
def test_vocabulary_is_mapped(check: Callable[[str], None], code: str) -> None:
    check(code)


@pytest.mark.parametrize("code", codes("VAL"))
def test_values_are_trained(check: Callable[[str], None], code: str) -> None:
    check(code)
