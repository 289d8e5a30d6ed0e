"""Values inside the server: planted defects, healthy facts, look-alikes."""

from __future__ import annotations

from dataclasses import replace

from eagle3_checks.facts import DraftedSeen, HeadsSeen
from tests_cpu.rules.cases.case import Case, alike, fires, healthy, skips
from tests_cpu.rules.seen import CAPTURE, LOAD
from tests_cpu.rules.true_states import (
    CAPTURED,
    handed_over,
    of_layers,
    outputs,
    parts,
    rounded,
    scaled,
)

RANKS = [state for rank, rows in enumerate(parts(2)) for state in handed_over(rows, rank=rank)]
BOTH = (LOAD, replace(LOAD, rank=1))
HEADS = HeadsSeen(rank=0, embedding="same", head="size")
DRAFTED = DraftedSeen(rank=0, tokens=300, outside=0, examples=(), allowed=64)


STORED = {"fc.weight": ((2.0, 1.0),)}
SERVED = {"model.fc.weight": ((2.0, 1.0),)}
NAN = float("nan")


def heads(**changes: str) -> tuple[HeadsSeen, ...]:
    return (replace(HEADS, **changes),)  # type: ignore[arg-type]


CASES: tuple[Case, ...] = (
    fires(
        "WIR004",
        "what enters layers 3, 5, 6, not 2, 4, 5: 1 layer too late",
        states=handed_over(of_layers(3, 5, 6)),
    ),
    fires(
        "WIR004",
        "what enters layers 1, 3, 4, not 2, 4, 5: 1 layer too early",
        states=handed_over(of_layers(1, 3, 4)),
    ),
    fires(
        "WIR004", "what enters layers 2, 4, 7, not 2, 4, 5", states=handed_over(of_layers(2, 4, 7))
    ),
    fires(
        "WIR004",
        "in the order of layers 5, 4, 2; SGLang hands over 2, 4, 5",
        states=handed_over(of_layers(5, 4, 2)),
    ),
    fires(
        "WIR004",
        "lack their residual: they are what the feed-forward parts before layers 2, 4, 5",
        states=handed_over(outputs(*CAPTURED)),
    ),
    fires("WIR004", "is 0.5 times what enters layer 2", states=handed_over(scaled(0.5))),
    fires(
        "WIR004",
        "aux state 1, for what enters layer 2, is an unfinished sum",
        states=handed_over(parts(2)[0]),
    ),
    fires(
        "WIR004",
        "unfinished sums: those of all ranks add up to what enters layers 2, 4, 5",
        states=tuple(RANKS),
    ),
    fires("WIR004", "1 aux state of 3 arrived", states=handed_over(of_layers(2))),
    fires("WIR004", "fits no layer: the nearest is", states=handed_over(rounded(0.3))),
    healthy(
        "WIR004", "what enters layers 2, 4, 5, within", states=handed_over(of_layers(*CAPTURED))
    ),
    alike("WIR004", states=handed_over(rounded(0.02), dtype="bfloat16")),
    skips("WIR004", "no prompt for which true states are known", states=()),
    fires(
        "WIR005",
        "an aux state differs from rank to rank: rank 1 and rank 0 by",
        states=tuple(RANKS),
        loads=BOTH,
    ),
    fires(
        "WIR005",
        "what was loaded differs from rank to rank: rank 0: all set; rank 1: lm_head.weight unset",
        loads=(LOAD, replace(LOAD, rank=1, unwritten=("lm_head.weight",))),
    ),
    fires(
        "WIR005",
        "what is captured differs from rank to rank: rank 0: 2, 4, 5; rank 1: 2, 4, 6",
        loads=BOTH,
        captures=(CAPTURE, replace(CAPTURE, rank=1, layers=(2, 4, 6))),
    ),
    healthy("WIR005", "2 ranks agree", loads=BOTH, captures=(CAPTURE, replace(CAPTURE, rank=1))),
    alike(
        "WIR005",
        loads=BOTH,
        captures=(CAPTURE, replace(CAPTURE, rank=1)),
        states=(*handed_over(rounded(0.0)), *handed_over(rounded(1e-5), rank=1)),
    ),
    skips("WIR005", "a single rank serves"),
    fires("WIR006", "the drafter's embedding must be the target's", heads=heads(embedding="other")),
    fires(
        "WIR006", "has head weights of its own, and serves the target's", heads=heads(head="same")
    ),
    fires(
        "WIR006",
        "the drafter's head must be the target's",
        heads=heads(head="other"),
        draft={"draft_vocab_size": None},
        tensors={"lm_head.weight": ..., "d2t": ..., "t2d": ...},
    ),
    healthy("WIR006", "embedding: the target's, head: its own", heads=heads()),
    alike("WIR006", heads=heads(embedding="equal")),
    alike("WIR006", heads=heads(head="equal")),
    skips("WIR006", "the probe saw no embedding and head", heads=()),
    fires(
        "WIR007",
        "12 of 300 drafts are none of the 64 ids that may be drafted, as 5, 9",
        drafted=(replace(DRAFTED, outside=12, examples=(5, 9)),),
    ),
    healthy("WIR007", "all of 300 drafts are of the 64 mapped ids", drafted=(DRAFTED,)),
    skips("WIR007", "the probe saw no drafts", drafted=(replace(DRAFTED, tokens=0),)),
    fires(
        "WIR002",
        "of which tensors filled a part, the rest being random: model.layers.0.self_attn.qkv_proj",
        loads=(replace(LOAD, partly=("model.layers.0.self_attn.qkv_proj.weight",)),),
    ),
    alike("WIR002", loads=(replace(LOAD, partly=("lm_head.weight",)),)),
    fires(
        "WIR008",
        "model.fc.weight is served with 0.5 where fc.weight has 1 (row 0, column 1)",
        corners={"model.fc.weight": ((2.0, 0.5),)},
        stored=STORED,
    ),
    fires("WIR008", "is served with nan", corners={"model.fc.weight": ((NAN,),)}, stored=STORED),
    healthy("WIR008", "first values of all 1 matrices", corners=SERVED, stored=STORED),
    alike("WIR008", corners={"model.fc.weight": ((2.005, 1.0),)}, stored=STORED),
    skips("WIR008", "the probe saw no served weights", corners={}, stored=STORED),
    skips("WIR008", "no matrix is served as it is stored", corners=SERVED, stored={}),
)
