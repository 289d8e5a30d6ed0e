"""Which state of the target an aux state is: found by its projections among all candidates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from eagle3_checks.facts import StateDigest, StatesSeen, TrueStates

TOLERANCE: Mapping[str, float] = {"float32": 1e-3}
"""Share by which a state may differ from the reference's, which computes in float32."""
HALF_TOLERANCE = 0.1
"""In half precision: the rounding of each layer adds up along the residual."""
UNFINISHED = 0.3
"""Cosine from which on a difference is taken for a part of the last sum. Between 16 projections of
16 tokens that have nothing to do with each other it hardly leaves 0.2."""

Vector = tuple[float, ...]


class Kind(StrEnum):
    """What an aux state turned out to be."""

    STATE = "state"
    OUTPUT = "output"
    """What a feed-forward part adds, without the residual."""
    SCALED = "scaled"
    UNFINISHED = "unfinished"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Match:
    """The nearest candidate."""

    kind: Kind
    boundary: int
    distance: float
    """Share of the candidate's norm by which it differs."""
    factor: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """All states and outputs of the target, over the tokens of the prompts that were seen."""

    states: Mapping[int, Vector]
    outputs: Mapping[int, Vector]


def tolerance(dtype: str) -> float:
    """Return the share by which states of this type may differ."""
    return TOLERANCE.get(dtype, HALF_TOLERANCE)


def candidates(true: TrueStates, prompts: Sequence[tuple[int, ...]]) -> Candidates:
    """Join the digests of several prompts."""
    return Candidates(
        states=_joined([true.states[p] for p in prompts]),
        outputs=_joined([true.outputs[p] for p in prompts]),
    )


def _joined(digests: Sequence[Mapping[int, StateDigest]]) -> dict[int, Vector]:
    common = set.intersection(*(set(d) for d in digests)) if digests else set()
    return {b: tuple(x for d in digests for x in d[b].rows) for b in sorted(common)}


def seen_vectors(seen: Sequence[StatesSeen]) -> tuple[Vector, ...]:
    """Join the aux states of several prompts, one vector for each place in the concatenation."""
    count = min(len(s.states) for s in seen)
    return tuple(tuple(x for s in seen for x in s.states[i].rows) for i in range(count))


def identify(vector: Vector, expected: int, among: Candidates, limit: float) -> Match:
    """Find what an aux state is, which should be the state of boundary `expected`."""
    by_state = {b: distance(vector, v) for b, v in among.states.items()}
    nearest = min(by_state, key=lambda b: (by_state[b], b != expected))
    if by_state[nearest] <= limit:
        return Match(kind=Kind.STATE, boundary=nearest, distance=by_state[nearest])
    by_output = {b: distance(vector, v) for b, v in among.outputs.items()}
    output = min(by_output, key=lambda b: by_output[b], default=expected)
    if by_output.get(output, math.inf) <= limit:
        return Match(kind=Kind.OUTPUT, boundary=output, distance=by_output[output])
    wanted = among.states[expected]
    factor = _dot(vector, wanted) / max(_dot(wanted, wanted), 1e-300)
    scaled = tuple(factor * x for x in wanted)
    if factor > 0 and distance(vector, scaled) <= limit:
        return Match(
            kind=Kind.SCALED, boundary=expected, distance=by_state[expected], factor=factor
        )
    if expected in among.outputs and _lacks_part(vector, wanted, among.outputs[expected]):
        return Match(kind=Kind.UNFINISHED, boundary=expected, distance=by_state[expected])
    return Match(kind=Kind.UNKNOWN, boundary=nearest, distance=by_state[nearest])


def sums_up(ranks: Iterable[Vector], expected: int, among: Candidates, limit: float) -> bool:
    """Whether the ranks' states are parts of one sum: of the whole state, or of its last output."""
    parts = tuple(ranks)
    total = tuple(map(sum, zip(*parts, strict=True)))
    state, output = among.states[expected], among.outputs.get(expected)
    if distance(total, state) <= limit:
        return True
    if output is None:
        return False
    # Each rank has the residual whole, and its own part of the output.
    whole = tuple(len(parts) * (s - o) + o for s, o in zip(state, output, strict=True))
    return distance(total, whole) <= limit


def distance(one: Vector, other: Vector) -> float:
    """Return the norm of the difference / the norm of the other."""
    difference = tuple(a - b for a, b in zip(one, other, strict=True))
    return math.sqrt(_dot(difference, difference)) / max(math.sqrt(_dot(other, other)), 1e-300)


def _lacks_part(vector: Vector, state: Vector, output: Vector) -> bool:
    lacking = tuple(s - v for s, v in zip(state, vector, strict=True))
    size, whole = math.sqrt(_dot(lacking, lacking)), math.sqrt(_dot(output, output))
    return 0 < size <= whole and _dot(lacking, output) >= UNFINISHED * size * whole


def _dot(one: Vector, other: Vector) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))
