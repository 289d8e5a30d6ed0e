"""Defects of values: names and shapes are right, and no header tells of them."""

from __future__ import annotations

from functools import partial

from eagle3_checks.reference.defects.defect import Defect
from eagle3_checks.reference.defects.planting import (
    Edit,
    Tensors,
    one,
    planting,
    swapped,
    tensors,
)
from eagle3_checks.reference.defects.values import (
    NAN,
    Values,
    filled,
    from_rows,
    interleaved,
    noisy,
    redrawn,
    reordered_blocks,
    reordered_rows,
    rows,
    spoilt,
    whole,
    zero,
)

File = partial(Defect, where="file")
ATTENTION, MLP = "midlayer.self_attn.", "midlayer.mlp."
QUERY, KEY, VALUE, OUT = (f"{ATTENTION}{part}_proj.weight" for part in "qkvo")
GATE, UP, DOWN = (f"{MLP}{part}_proj.weight" for part in ("gate", "up", "down"))
HEAD, FC = "lm_head.weight", "fc.weight"
MATRICES = (FC, QUERY, KEY, VALUE, OUT, GATE, UP, DOWN, HEAD)
HEAD_DIM = 32
EARLY = 0.9
"""Noise that leaves as much of the weights as an early checkpoint has of them."""


def _all(names: tuple[str, ...], change: Values) -> Edit:
    def damaged(held: Tensors) -> Tensors:
        return held | {name: change(held[name]) for name in names}

    return tensors(damaged)


def _by_offset(held: Tensors) -> Tensors:
    """Take the rows of the head by offsets in place of ids: one row for each offset."""
    offsets = whole(held["d2t"])
    head = rows(held[HEAD])
    return held | {HEAD: from_rows(held[HEAD], [head[offsets.index(o)] for o in offsets])}


def _backwards(count: int) -> list[int]:
    return list(range(count))[::-1]


def _second_half_first(count: int) -> list[int]:
    return [*range(count // 2, count), *range(count // 2)]


DEFECTS: tuple[Defect, ...] = (
    File(
        name="nan",
        title="one value of down_proj is NaN",
        kind="values-nan",
        cause="weights",
        codes=("VAL001",),
        plant=planting(one(DOWN, spoilt(NAN))),
    ),
    File(
        name="fc-zero",
        title="fc all zero",
        kind="values-zero",
        cause="weights",
        codes=("VAL002",),
        served=True,
        plant=planting(one(FC, zero)),
    ),
    File(
        name="head-repeated",
        title="rows of the head cut out by offsets: one row for every offset",
        kind="head-rows",
        cause="weights",
        codes=("VAL003",),
        plant=planting(tensors(_by_offset)),
    ),
    File(
        name="fc-untrained",
        title="fc at the scale of an untrained normal distribution",
        kind="values-scale",
        cause="weights",
        warns=("VAL004",),
        served=True,
        plant=planting(one(FC, redrawn(1.0))),
    ),
    File(
        name="norm-tiny",
        title="final norm near zero",
        kind="norm-scale",
        cause="norms",
        warns=("VAL005",),
        plant=planting(one("norm.weight", filled(0.001))),
    ),
    File(
        name="fc-block-zero",
        title="fc ignores its deepest aux state",
        kind="aux-unused",
        cause="aux-unused",
        served=True,
        plant=planting(one(FC, reordered_blocks(0, 1, -1))),
    ),
    File(
        name="layer-random",
        title="attention and MLP drawn anew at a trained scale, as after a lost import",
        kind="weights-lost",
        cause="training",
        served=True,
        plant=planting(_all((QUERY, KEY, VALUE, OUT, GATE, UP, DOWN), redrawn(0.06))),
    ),
    File(
        name="head-noise",
        title="head with noise of its own size, as after a coarse quantisation",
        kind="weights-noise",
        cause="head",
        served=True,
        plant=planting(one(HEAD, noisy(1.0))),
    ),
    File(
        name="training-short",
        title="an early checkpoint: all matrices with noise",
        kind="training-short",
        cause="training",
        served=True,
        plant=planting(_all(MATRICES, noisy(EARLY))),
    ),
    File(
        name="head-reversed",
        title="head whose rows stand in another order than d2t",
        kind="head-order",
        cause="vocabulary",
        served=True,
        plant=planting(one(HEAD, reordered_rows(_backwards))),
    ),
    File(
        name="gate-up-swapped",
        title="gate_proj and up_proj exchanged",
        kind="tensors-swapped",
        cause="tensor-layout",
        served=True,
        plant=planting(swapped(GATE, UP)),
    ),
    File(
        name="key-value-swapped",
        title="k_proj and v_proj exchanged",
        kind="tensors-swapped",
        cause="tensor-layout",
        served=True,
        plant=planting(swapped(KEY, VALUE)),
    ),
    File(
        name="embedding-hidden-swapped",
        title="q, k and v read the hidden state first and the embedding second",
        kind="input-order",
        cause="tensor-layout",
        served=True,
        plant=planting(_all((QUERY, KEY, VALUE), reordered_blocks(1, 0))),
    ),
    File(
        name="rope-interleaved",
        title="q and k ordered for RoPE over neighbouring pairs; SGLang turns halves",
        kind="rope-layout",
        cause="rope",
        served_codes=("ACC005",),
        served=True,
        plant=planting(_all((QUERY, KEY), interleaved(HEAD_DIM))),
    ),
    File(
        name="key-heads-swapped",
        title="the heads of k_proj in another order than those of q_proj",
        kind="attention-grouping",
        cause="tensor-layout",
        served=True,
        plant=planting(one(KEY, reordered_rows(_second_half_first))),
    ),
    Defect(
        name="target-changed",
        title="the target was trained further; the drafter is of the one before",
        where="target",
        kind="drafter-stale",
        cause="training",
        served_codes=("ACC005",),
        served=True,
        plant=planting(
            tensors(
                lambda held: {
                    name: noisy(0.4, place)(tensor) if ".mlp." in name else tensor
                    for place, (name, tensor) in enumerate(held.items())
                },
                "target",
            )
        ),
    ),
)
