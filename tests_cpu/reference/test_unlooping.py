from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3_checks.reference.unlooping import distinct_share, repeats


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=6, max_size=30), st.integers(2, 4))
def test_repeats_are_those_a_naive_search_finds(row: list[int], size: int) -> None:
    grams = [tuple(row[end - size + 1 : end + 1]) for end in range(size - 1, len(row))]
    naive = [False] * (size - 1) + [gram in grams[:index] for index, gram in enumerate(grams)]
    assert repeats(torch.tensor([row]), size)[0].tolist() == naive


def test_distinct_share() -> None:
    assert distinct_share(torch.tensor([[1, 1, 1, 1], [1, 2, 3, 4]])) == 0.625
