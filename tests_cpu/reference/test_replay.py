"""The walk over a text: what a server would count of trees that are told."""

from __future__ import annotations

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.profile import Speculation
from eagle3_checks.reference.drafting import Trees
from eagle3_checks.reference.replay import Text, Verified, _walk, counted, verify
from tests_cpu.reference.small import make

CHAIN = Speculation(steps=2, draft_tokens=3)


def chains(text: list[int], right: list[int], first: int) -> Trees:
    """Chains from known = first on, of which so many drafts are the text's."""
    rows = []
    for row, count in enumerate(right):
        known = first + row
        drafts = [text[known + i] if i < count else -7 for i in range(2)]
        rows.append([text[known - 1], *drafts])
    return Trees(torch.tensor(rows), torch.tensor([[-1, 0, 1]] * len(right)), [])


def walked(text: list[int], right: list[int], span: range, *ends: int) -> list[tuple[int, int]]:
    trees = chains(text, right, span.start)
    steps = _walk(trees, torch.tensor(text), span, frozenset(ends))
    return [(step.known, step.correct) for step in steps]


def test_counts_are_those_of_a_server() -> None:
    text = [5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17]  # three of the prompt
    right = [0, 2, 1, 0, 2, 1]
    assert walked(text, right, range(4, 9)) == [(4, 0), (5, 2), (8, 2)]
    # The last step counts whole, past the end; none begins there.
    assert walked(text, right, range(4, 6)) == [(4, 0), (5, 2)]
    # An end token in a verified run ends the answer, as a draft, as the bonus, or as the first.
    assert walked(text, right, range(4, 9), 12) == [(4, 0), (5, 2)]
    assert walked(text, right, range(4, 9), 14) == [(4, 0), (5, 2)]
    assert walked(text, right, range(4, 9), 11) == [(4, 0)]
    assert walked(text, right, range(4, 9), 10) == []
    aux = torch.zeros(len(text), 48)
    served = Text(
        prompt_id="p", prompt_set="s", tokens=torch.tensor(text), prompt_tokens=3, aux=aux
    )
    steps = [Verified(known=4, row=0, correct=0), Verified(known=5, row=1, correct=2)]
    sample = counted(served, steps, CHAIN, 4)
    assert (sample.histogram, sample.correct_drafts, sample.proposed_drafts) == ((1, 0, 1), 2, 4)
    assert sample.completion_tokens == 4
    assert counted(served, steps, CHAIN, 9).completion_tokens == 5
    assert counted(served, [], CHAIN, 9).completion_tokens == 1


@given(new=st.integers(2, 12), prompt=st.integers(1, 5))
def test_every_token_is_written_once(new: int, prompt: int) -> None:
    tokens = torch.randint(50, (prompt + new + CHAIN.steps,))
    text = Text(
        prompt_id="",
        prompt_set="",
        tokens=tokens,
        prompt_tokens=prompt,
        aux=torch.randn(len(tokens) - 1, 48),
    )
    _, walk = verify(make(), text, CHAIN, new)
    assert walk[0].known == prompt + 1
    for before, after in pairwise(walk):
        assert after.known == before.known + before.correct + 1
    assert walk[-1].known < prompt + new <= walk[-1].known + walk[-1].correct + 1
    sample = counted(text, walk, CHAIN, new)
    assert sample.completion_tokens == new
    assert sum(sample.histogram or ()) == sample.verify_steps
