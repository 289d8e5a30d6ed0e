"""A target's states, made up, and what a server hands over of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from eagle3_checks.facts import StateDigest, StatesSeen, TrueStates

PROMPTS = ((1, 2, 3), (7, 8, 9, 10))
DEPTH, HIDDEN = 8, 16
CAPTURED = (2, 4, 5)

Row = tuple[float, ...]


def _row(random_: random.Random, tokens: int, size: float) -> Row:
    return tuple(random_.gauss(0, size) for _ in range(16 * tokens))


def _make(prompt: tuple[int, ...]) -> tuple[dict[int, Row], dict[int, Row]]:
    """Each layer adds two parts to the residual, of which the second is its output."""
    drawn = random.Random(sum(prompt))  # noqa: S311 - made-up numbers
    states = {0: _row(drawn, len(prompt), 1.0)}
    outputs = {}
    for layer in range(1, DEPTH + 1):
        attention = _row(drawn, len(prompt), 0.2)
        outputs[layer] = _row(drawn, len(prompt), 0.4)
        states[layer] = plus(plus(states[layer - 1], attention), outputs[layer])
    return states, outputs


def plus(one: Row, other: Row, factor: float = 1.0) -> Row:
    """Return one + factor x other."""
    return tuple(a + factor * b for a, b in zip(one, other, strict=True))


def times(row: Row, factor: float) -> Row:
    """Return factor x row."""
    return tuple(factor * a for a in row)


def _digest(row: Row) -> StateDigest:
    return StateDigest(mean=0.0, norm=1.0, rows=row)


STATES = {prompt: _make(prompt)[0] for prompt in PROMPTS}
OUTPUTS = {prompt: _make(prompt)[1] for prompt in PROMPTS}
TRUE = TrueStates(
    source="transformers 5",
    states={p: {b: _digest(r) for b, r in rows.items()} for p, rows in STATES.items()},
    outputs={p: {b: _digest(r) for b, r in rows.items()} for p, rows in OUTPUTS.items()},
)


def handed_over(
    rows: Sequence[dict[tuple[int, ...], Row]], **changes: object
) -> tuple[StatesSeen, ...]:
    """Return what the probe saw where the aux states are these rows."""
    given: dict[str, object] = {"rank": 0, "dtype": "float32", **changes}
    return tuple(
        StatesSeen(
            tokens=prompt,
            width=HIDDEN * len(rows),
            hidden_size=HIDDEN,
            states=tuple(_digest(row[prompt]) for row in rows),
            **given,  # type: ignore[arg-type]
        )
        for prompt in PROMPTS
    )


def of_layers(*layers: int) -> list[dict[tuple[int, ...], Row]]:
    """Return the true states of these boundaries."""
    return [{p: STATES[p][layer] for p in PROMPTS} for layer in layers]


def outputs(*layers: int) -> list[dict[tuple[int, ...], Row]]:
    """Return what the feed-forward parts before these boundaries add."""
    return [{p: OUTPUTS[p][layer] for p in PROMPTS} for layer in layers]


def scaled(factor: float) -> list[dict[tuple[int, ...], Row]]:
    """Return the captured states, scaled."""
    return [{p: times(STATES[p][b], factor) for p in PROMPTS} for b in CAPTURED]


def rounded(size: float) -> list[dict[tuple[int, ...], Row]]:
    """Return the captured states with noise of this share."""
    drawn = random.Random(5)  # noqa: S311
    return [
        {p: tuple(x * (1 + drawn.gauss(0, size)) for x in STATES[p][b]) for p in PROMPTS}
        for b in CAPTURED
    ]


def parts(ranks: int) -> list[list[dict[tuple[int, ...], Row]]]:
    """Return each rank's states: the residual whole, and its own part of the last output."""
    drawn = random.Random(3)  # noqa: S311
    made: list[list[dict[tuple[int, ...], Row]]] = [[] for _ in range(ranks)]
    for b in CAPTURED:
        kept = {p: plus(STATES[p][b], OUTPUTS[p][b], -1.0) for p in PROMPTS}
        left = {p: OUTPUTS[p][b] for p in PROMPTS}
        for rank in range(ranks):
            part = left
            if rank < ranks - 1:
                part = {p: tuple(x * drawn.random() for x in row) for p, row in left.items()}
            left = {p: plus(left[p], part[p], -1.0) for p in PROMPTS}
            made[rank].append({p: plus(kept[p], part[p]) for p in PROMPTS})
    return made
