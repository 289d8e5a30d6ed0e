from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.bisect.search import Boundary, Side, search


class World:
    """A monotone list with points that cannot be told; counts what is asked."""

    def __init__(self, turn: int, hidden: frozenset[int] = frozenset()) -> None:
        self.turn, self.hidden = turn, hidden
        self.asked: list[tuple[int, int]] = []

    def __call__(self, index: int, number: int) -> Side:
        self.asked.append((index, number))
        if index in self.hidden:
            return Side.OPEN
        return Side.FIRST if index < self.turn else Side.LAST


@st.composite
def lists(draw: st.DrawFn) -> tuple[int, int, frozenset[int]]:
    count = draw(st.integers(2, 200))
    turn = draw(st.integers(1, count - 1))
    inside = st.integers(1, count - 2) if count > 2 else st.nothing()
    return count, turn, draw(st.frozensets(inside))


@given(lists())
def test_the_right_boundary_or_the_honest_range(case: tuple[int, int, frozenset[int]]) -> None:
    count, turn, hidden = case
    world = World(turn, hidden)
    found = search(count, world)
    told = [i for i in range(count) if i not in hidden]
    assert found.before == max(i for i in told if i < turn)
    assert found.after == min(i for i in told if i >= turn)
    assert set(found.skipped) == set(range(found.before + 1, found.after))
    assert found.exact == (not found.skipped)
    assert max(Counter(world.asked).values()) == 1


@given(st.integers(2, 5000), st.data())
def test_the_number_of_measurements(count: int, data: st.DataObject) -> None:
    world = World(data.draw(st.integers(1, count - 1)))
    assert search(count, world).exact
    ends = 2
    assert ends + len(world.asked) <= math.ceil(math.log2(count)) + 3


def test_sixteen_take_at_most_seven() -> None:
    for turn in range(1, 16):
        world = World(turn)
        assert search(16, world) == Boundary(before=turn - 1, after=turn)
        assert 2 + len(world.asked) <= 7
        assert world.asked[-1] == (turn, 2)  # nothing is blamed on one measurement


def test_a_contradicted_point_widens_the_answer() -> None:
    turn = 5

    def ask(index: int, number: int) -> Side:
        if index == turn and number == 2:
            return Side.FIRST
        return Side.FIRST if index < turn else Side.LAST

    found = search(16, ask)
    assert found == Boundary(before=4, after=6, skipped=(5,), contradicted=(5,))
    assert not found.exact


def test_an_end_that_turns_out_otherwise_is_not_blamed() -> None:
    found = search(4, lambda _, number: Side.FIRST if number == 1 else Side.OPEN)
    assert (found.before, found.after, found.confirmed) == (2, 3, False)
    assert found.contradicted == (3,)
    assert not found.exact
