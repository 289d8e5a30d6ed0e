"""Text that repeats itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.facts import RequestSample
from eagle3_checks.measure.looping import SHORTEST, looping_characters, measure_looping

PLAIN = "def read(path):\n    with open(path) as file:\n        return file.read()\n\n"


@pytest.mark.parametrize(
    ("text", "looping"),
    [
        ("", 0),
        (PLAIN, 0),
        ("!" * 200, 200),
        ("# " + "-" * 76 + "\n" + PLAIN, 0),
        (PLAIN + "and so on " * 12, 120),
        (PLAIN + "and so on " * 12 + "and so", 126),
        ("and so on " * 3, 0),
        ("x = 1\n" * 20 + PLAIN + "y" * 100, 220),
    ],
)
def test_loops(text: str, looping: int) -> None:
    # A loop may take in a character before it that fits.
    assert looping <= looping_characters(text) <= looping + (1 if looping else 0)


@given(st.text(alphabet="ab \n", max_size=300))
def test_never_more_than_there_is(text: str) -> None:
    assert 0 <= looping_characters(text) <= len(text)


@given(st.text(alphabet="abcdef", min_size=1, max_size=64), st.text(max_size=20))
def test_what_repeats_is_found(part: str, before: str) -> None:
    repeats = max(4, -(-SHORTEST // len(part)))
    assert looping_characters(before + part * repeats) >= SHORTEST


def sample(name: str, text: str, correct: int) -> RequestSample:
    return RequestSample(
        prompt_id=name,
        prompt_set="s",
        prompt_tokens=8,
        completion_tokens=20,
        verify_steps=10,
        correct_drafts=correct,
        proposed_drafts=30,
        histogram=None,
        text=text,
    )


def test_the_accept_length_without_loops() -> None:
    seen = measure_looping([sample("a", PLAIN, 10), sample("b", "na" * 200, 30)])
    assert (seen.prompts, seen.worst) == (2, ("b",))
    assert (seen.accept_length, seen.accept_length_all) == (2.0, 3.0)
    assert seen.looping == 400
    nothing = measure_looping([])
    assert (nothing.accept_length, nothing.characters) == (None, 0)
