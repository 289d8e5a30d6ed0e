"""Aux states are found among all states of a target."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.rules.states import Kind, candidates, identify, seen_vectors, sums_up
from tests_cpu.rules.true_states import (
    CAPTURED,
    DEPTH,
    PROMPTS,
    TRUE,
    handed_over,
    of_layers,
    outputs,
    parts,
    scaled,
)

AMONG = candidates(TRUE, PROMPTS)
LAYERS = st.lists(st.integers(0, DEPTH), min_size=1, max_size=5)


@given(LAYERS, st.integers(0, DEPTH), st.sampled_from([1e-3, 0.1]))
def test_any_layer_is_found_whatever_was_expected(
    layers: list[int], expected: int, limit: float
) -> None:
    vectors = seen_vectors(handed_over(of_layers(*layers)))
    found = [identify(v, expected, AMONG, limit) for v in vectors]
    assert [(m.kind, m.boundary) for m in found] == [(Kind.STATE, layer) for layer in layers]


@given(st.integers(1, DEPTH), st.integers(0, DEPTH))
def test_an_output_is_no_state(layer: int, expected: int) -> None:
    (vector,) = seen_vectors(handed_over(outputs(layer)))
    found = identify(vector, expected, AMONG, 1e-3)
    assert (found.kind, found.boundary) == (Kind.OUTPUT, layer)


@given(st.floats(0.05, 0.9))
def test_a_share_of_a_state(factor: float) -> None:
    for vector, layer in zip(seen_vectors(handed_over(scaled(factor))), CAPTURED, strict=True):
        found = identify(vector, layer, AMONG, 1e-3)
        assert (found.kind, found.boundary) == (Kind.SCALED, layer)
        assert abs(found.factor - factor) < 1e-9


@given(st.integers(2, 8))
def test_parts_of_all_ranks_add_up(ranks: int) -> None:
    vectors = [seen_vectors(handed_over(rows)) for rows in parts(ranks)]
    for place, layer in enumerate(CAPTURED):
        assert sums_up([v[place] for v in vectors], layer, AMONG, 1e-3)
        assert not sums_up([v[place] for v in vectors[1:]], layer, AMONG, 1e-3)


def test_whole_states_of_two_ranks_are_no_parts() -> None:
    (vector,) = seen_vectors(handed_over(of_layers(4)))
    assert not sums_up([vector, vector], 4, AMONG, 1e-3)
