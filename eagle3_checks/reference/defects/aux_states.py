"""Defects of the fusion layer, the captured layers and the draft vocabulary."""

from __future__ import annotations

import json
import struct
from functools import partial
from pathlib import Path
from typing import Any

from eagle3_checks.reference.defects.defect import Defect
from eagle3_checks.reference.defects.planting import (
    CONFIG,
    Plant,
    Tensors,
    config,
    dropped,
    one,
    planting,
    tensors,
)
from eagle3_checks.reference.defects.values import (
    first_block,
    from_rows,
    integers,
    reordered_blocks,
    rows,
    whole,
    zero,
)
from eagle3_checks.reference.tensorfile import RawTensor

File = partial(Defect, where="file")
Config = partial(Defect, where="config")
IDS = "eagle_aux_hidden_state_layer_ids"
LAYERS = "model.layers."
FEW = 64
MOE = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "num_hidden_layers": 24}


def _stated(*layers: int) -> dict[str, Any]:
    return {"eagle_config": {IDS: list(layers)}}


def _layers(count: int) -> Plant:
    """Cut the target to its first layers."""

    def shorter(pair: Path) -> None:
        before = json.loads((pair / "target" / CONFIG).read_text())["num_hidden_layers"]
        gone = tuple(f"{LAYERS}{layer}." for layer in range(count, before))
        tensors(lambda held: {n: t for n, t in held.items() if not n.startswith(gone)}, "target")(
            pair
        )

    return planting(shorter, config("target", num_hidden_layers=count))


def _absolute(tensor: RawTensor) -> RawTensor:
    """Store the target ids themselves in place of their offsets."""
    return integers([offset + place for place, offset in enumerate(whole(tensor))])


def _as_floats(tensor: RawTensor) -> RawTensor:
    held = whole(tensor)
    return RawTensor("F64", tensor.shape, struct.pack(f"<{len(held)}d", *held))


def _rolled(held: Tensors) -> Tensors:
    """Let every draft id stand for the target id of its neighbour, and keep t2d true to it."""
    kept = [offset + place for place, offset in enumerate(whole(held["d2t"]))]
    kept = kept[1:] + kept[:1]
    return held | {"d2t": integers([token - place for place, token in enumerate(kept)])}


def _prefix(held: Tensors) -> Tensors:
    """Fill d2t and t2d as a writer does that has no counts: the first ids."""
    size, whole_size = held["d2t"].shape[0], held["t2d"].shape[0]
    mask = b"\1" * size + b"\0" * (whole_size - size)
    return held | {"d2t": integers([0] * size), "t2d": RawTensor("BOOL", (whole_size,), mask)}


def _few(held: Tensors) -> Tensors:
    """Keep every sixteenth token of the draft vocabulary."""
    offsets = whole(held["d2t"])
    places = range(0, len(offsets), len(offsets) // FEW)
    kept = [place + offsets[place] for place in places]
    mask = bytes(token in set(kept) for token in range(held["t2d"].shape[0]))
    return held | {
        "lm_head.weight": from_rows(
            held["lm_head.weight"], [rows(held["lm_head.weight"])[place] for place in places]
        ),
        "d2t": integers([token - place for place, token in enumerate(kept)]),
        "t2d": RawTensor("BOOL", held["t2d"].shape, mask),
    }


def _all_true(tensor: RawTensor) -> RawTensor:
    return RawTensor(tensor.dtype, tensor.shape, b"\1" * tensor.shape[0])


DEFECTS: tuple[Defect, ...] = (
    File(
        name="fc-square",
        title="fc that fuses one aux state, [H, H], where SGLang builds [H, 3H]",
        kind="fusion-width",
        cause="fusion",
        codes=("FUS001",),
        warns=("CFG020",),
        plant=planting(one("fc.weight", first_block)),
    ),
    File(
        name="fc-missing",
        title="no fc in the file",
        kind="fusion-missing",
        cause="fusion",
        codes=("FUS002", "KEY002"),
        plant=planting(dropped("fc.weight")),
    ),
    Config(
        name="one-aux-state",
        title="one aux state stated: it is as wide as the embedding, and fc is skipped",
        kind="fusion-skipped",
        cause="aux-layers",
        codes=("CFG020", "FUS003", "FUS005"),
        plant=planting(config(num_aux_hidden_states=1), one("fc.weight", first_block)),
    ),
    Config(
        name="hidden-differs",
        title="the target is twice as wide, and target_hidden_size does not say so",
        kind="target-hidden-size",
        cause="fusion",
        codes=("FUS004",),
        plant=planting(config("target", hidden_size=256)),
    ),
    Defect(
        name="target-5-layers",
        title="a target of five layers: the default capture ids are one layer, fc skipped",
        where="target",
        kind="aux-collapsed",
        cause="aux-layers",
        codes=("FUS005",),
        served_codes=("WIR003", "ACC001"),
        served=True,
        plant=_layers(5),
    ),
    Defect(
        name="target-class",
        title="a target class without the capture hook in that version",
        where="target",
        kind="target-hook",
        cause="fusion",
        codes=("FUS006",),
        sglang="0.5.9",
        plant=planting(config("target", architectures=["KimiK25ForConditionalGeneration"])),
    ),
    Config(
        name="aux-outside",
        title="a stated layer that the target does not have: one state never comes",
        kind="aux-range",
        cause="aux-layers",
        codes=("FUS007",),
        plant=planting(config(**_stated(1, 3, 9))),
    ),
    Config(
        name="aux-flat",
        title="ids at the top level, which the capture passes over: the default is captured",
        kind="aux-flat",
        cause="aux-layers",
        codes=("FUS008",),
        plant=planting(config(eagle_aux_hidden_state_layer_ids=[0, 1, 2])),
    ),
    Config(
        name="aux-convention",
        title="ids in the counting of another engine: every layer is one off",
        kind="aux-convention",
        cause="aux-layers",
        warns=("FUS009",),
        plant=planting(config(**_stated(2, 4, 5))),
    ),
    Config(
        name="aux-shallow",
        title="layers 1, 2, 3 stated, 2, 4, 5 trained on",
        kind="aux-ids-wrong",
        cause="aux-layers",
        served_codes=("ACC005",),
        served=True,
        plant=planting(config(**_stated(0, 1, 2))),
    ),
    Config(
        name="aux-deep",
        title="layers 5, 6, 7 stated, 2, 4, 5 trained on",
        kind="aux-ids-wrong",
        cause="aux-layers",
        served_codes=("ACC005",),
        served=True,
        plant=planting(config(**_stated(4, 5, 6))),
    ),
    Config(
        name="aux-default-graphs",
        title="stated layers that a version forgets under CUDA graphs",
        kind="aux-graphs",
        cause="aux-layers",
        warns=("FUS010",),
        sglang="0.5.9",
        plant=planting(config(**_stated(0, 1, 2))),
    ),
    Defect(
        name="aux-unstated",
        title="no ids, and the trainer's default for this target is another than the server's",
        where="target",
        kind="aux-ids-absent",
        cause="aux-layers",
        warns=("FUS011",),
        plant=planting(config("target", **MOE)),
    ),
    Config(
        name="aux-count",
        title="four aux states stated, three captured",
        kind="aux-count",
        cause="aux-layers",
        codes=("CFG020", "FUS001", "FUS005"),
        plant=planting(config(num_aux_hidden_states=4)),
    ),
    Config(
        name="aux-twice",
        title="one layer stated twice: two states of three arrive",
        kind="aux-duplicate",
        cause="aux-layers",
        codes=("FUS005",),
        plant=planting(config(**_stated(1, 3, 3))),
    ),
    Config(
        name="aux-off",
        title="use_aux_hidden_state false beside an fc of three states",
        kind="aux-off",
        cause="fusion",
        codes=("CFG021",),
        plant=planting(config(eagle_config={"use_aux_hidden_state": False})),
    ),
    File(
        name="fc-columns-reversed",
        title="fc reads the aux states from the last to the first",
        kind="aux-order",
        cause="aux-order",
        served=True,
        plant=planting(one("fc.weight", reordered_blocks(2, 1, 0))),
    ),
    File(
        name="fc-columns-rolled",
        title="fc reads the second aux state where the first stands",
        kind="aux-order",
        cause="aux-order",
        served=True,
        plant=planting(one("fc.weight", reordered_blocks(1, 2, 0))),
    ),
    File(
        name="d2t-missing",
        title="a reduced head without d2t: its rows stand for the first ids",
        kind="d2t-missing",
        cause="vocabulary",
        codes=("VOC001",),
        served=True,
        plant=planting(dropped("d2t")),
    ),
    File(
        name="d2t-zero",
        title="d2t all zero with a reduced draft vocabulary: only the first ids are proposed",
        kind="d2t-zero",
        cause="vocabulary",
        codes=("VOC002",),
        served=True,
        plant=planting(one("d2t", zero)),
    ),
    File(
        name="d2t-absolute",
        title="d2t holds target ids in place of offsets",
        kind="d2t-absolute",
        cause="vocabulary",
        codes=("VOC003", "VOC006"),
        plant=planting(one("d2t", _absolute)),
    ),
    File(
        name="d2t-floats",
        title="d2t as floats",
        kind="d2t-type",
        cause="vocabulary",
        codes=("VOC003",),
        plant=planting(one("d2t", _as_floats)),
    ),
    File(
        name="d2t-rolled",
        title="every draft id stands for its neighbour's token",
        kind="d2t-stale",
        cause="vocabulary",
        served=True,
        plant=planting(tensors(_rolled)),
    ),
    File(
        name="d2t-prefix",
        title="d2t and t2d of the first ids, agreeing with each other, beside another head",
        kind="d2t-default",
        cause="vocabulary",
        served=True,
        plant=planting(tensors(_prefix)),
    ),
    File(
        name="vocabulary-small",
        title="64 draft tokens: most of what the target says cannot be proposed",
        kind="vocab-coverage",
        cause="vocabulary",
        served=True,
        plant=planting(tensors(_few), config(draft_vocab_size=FEW)),
    ),
    Config(
        name="head-vocab-shape",
        title="draft_vocab_size 512 beside a head of 1024 rows",
        kind="head-vocab-shape",
        cause="vocabulary",
        codes=("KEY004", "VOC001"),
        plant=planting(config(draft_vocab_size=512)),
    ),
    Config(
        name="tied-reduced",
        title="tie_word_embeddings beside a reduced head: the embedding becomes the head",
        kind="tie-reduced",
        cause="vocabulary",
        codes=("KEY001", "VOC004"),
        plant=planting(config(tie_word_embeddings=True)),
    ),
    File(
        name="t2d-all-true",
        title="t2d all true, as before it is filled",
        kind="t2d-unfilled",
        cause="vocabulary",
        warns=("VOC005",),
        plant=planting(one("t2d", _all_true)),
    ),
    Defect(
        name="target-vocabulary-smaller",
        title="d2t reaches ids that the target does not have",
        where="target",
        kind="target-vocabulary",
        cause="vocabulary",
        codes=("VOC006",),
        plant=planting(config("target", vocab_size=1500)),
    ),
)
