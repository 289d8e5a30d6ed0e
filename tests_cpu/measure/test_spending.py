from __future__ import annotations

import itertools
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.measure import spending
from eagle3_checks.measure.spending import LEAST_PROMPTS, look_sizes, nominal_levels


def boundaries(sizes: tuple[int, ...], error: float = 0.05) -> list[float]:
    return [-NormalDist().inv_cdf(level / 2) for level in nominal_levels(sizes, error)]


@pytest.fixture
def linear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spending, "EXPONENT", 1.0)
    monkeypatch.setattr(spending, "KEPT_BACK", 0.0)
    nominal_levels.cache_clear()


def test_linear_spending_is_as_published(linear: None) -> None:
    # Two-sided 5 %, five equal looks, alpha spent in proportion to the information: Lan and DeMets
    # 1983, table 1 (2.58, 2.49, 2.41, 2.34, 2.28).
    assert boundaries((1, 2, 3, 4, 5)) == pytest.approx([2.58, 2.49, 2.41, 2.34, 2.28], abs=0.005)
    nominal_levels.cache_clear()


def test_one_look_is_a_plain_test() -> None:
    (level,) = nominal_levels((80,), 0.05)
    assert level == pytest.approx(0.05 * (1 - spending.KEPT_BACK), rel=1e-4)


@given(planned=st.integers(1, 400), concurrency=st.integers(1, 64))
def test_looks_wait_for_every_request(planned: int, concurrency: int) -> None:
    sizes = look_sizes(planned, concurrency=concurrency)
    assert sizes[-1] == planned
    assert all(size % concurrency == 0 for size in sizes[:-1])
    assert all(low < high for low, high in itertools.pairwise(sizes))
    assert len(sizes) == 1 or sizes[0] >= LEAST_PROMPTS


def test_levels_sum_to_no_less_than_what_is_spent() -> None:
    sizes = look_sizes(80, concurrency=4)
    levels = nominal_levels(sizes, 0.05)
    assert sizes[:6] == (4, 8, 12, 16, 20, 24)
    # Looks overlap, so that the nominal levels add up to more than the error they spend together.
    spent = 0.05 * (1 - spending.KEPT_BACK)
    assert max(levels) < spent < sum(levels)
