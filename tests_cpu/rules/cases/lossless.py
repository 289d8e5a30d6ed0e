"""Losslessness: planted defects, healthy facts, look-alikes."""

from __future__ import annotations

from typing import Any

from eagle3_checks.facts import Comparison, Divergence, RequestKind, ZeroRun
from eagle3_checks.measure.kinds import ASKED
from tests_cpu.rules.cases.case import Case, alike, doubts, fires, healthy, skips, warns

KINDS = {
    "LOS010": ("logprobs", "1 log probabilities for 24 tokens"),
    "LOS011": ("json", "the answer is not JSON: 'no sch'"),
    "LOS012": ("stop", "the answer goes on behind the stop string 'ret'"),
    "LOS013": ("abort", "it went on to its 256 tokens"),
    "LOS014": ("short", "2 tokens instead of 1"),
    "LOS015": ("hidden", "23 entries of hidden states for 24 tokens"),
}
RUNS = {"LOS002": "against_plain", "LOS003": "again", "LOS004": "together", "LOS005": "cached"}


def apart(margin: float | None, floor: float = 0.0) -> Comparison:
    """One divergence in 128 tokens."""
    found = Divergence(prompt_id="p3", index=17, token=15, other=541, margin=margin, floor=floor)
    return Comparison(prompts=4, tokens=128, divergences=(found,))


def kind(name: str, **changes: Any) -> tuple[RequestKind, ...]:
    return (RequestKind(kind=name, asked=dict(ASKED).get(name, ""), **changes),)


def compared(code: str, field: str) -> tuple[Case, ...]:
    return (
        fires(code, "p3 at output token 17: 15 instead of 541", **{field: apart(0.83)}),
        fires(code, "apart by over 0.5 nats", **{field: apart(None, 0.5)}),
        fires(code, "0.1 nats", dtype="float32", **{field: apart(0.1)}),
        doubts(code, "an unknown margin", **{field: apart(None)}),
        healthy(code),
        alike(code, "1 tie, of up to 0.0004 nats", dtype="float32", **{field: apart(0.0004)}),
        alike(code, "1 tie, of up to 0.1 nats", dtype="bfloat16", **{field: apart(0.1)}),
        alike(code, "in an unknown type", dtype="", **{field: apart(0.2)}),
    )


CASES: tuple[Case, ...] = (
    doubts(
        "LOS000",
        "2 requests failed: p1: timed out, p2: refused",
        failures=("p1: timed out", "p2: refused"),
    ),
    healthy("LOS000"),
    alike("LOS000", scored=apart(2.0)),
    *compared("LOS001", "scored"),
    doubts("LOS001", "no answer was scored", scored=Comparison(missing="no answer was scored")),
    *(case for code, field in RUNS.items() for case in compared(code, field)),
    skips("LOS004", "a single prompt has no company", concurrency=1),
    skips(
        "LOS005", "the cache is off", cached_tokens=0, cached=Comparison(missing="the cache is off")
    ),
    fires(
        "LOS006",
        "p2 has 9 tokens 0 in a row from output token 4 on",
        zero_runs=(ZeroRun(prompt_id="p2", index=4, length=9),),
    ),
    healthy("LOS006"),
    alike("LOS006", zero_runs=(ZeroRun(prompt_id="p2", index=4, length=7),)),
    skips("LOS006", "no answer was compared", scored=Comparison(missing="x")),
    warns(
        "LOS007",
        "40 % of the text of 10 answers repeats itself; the accept length is 3.10",
        looping=400,
    ),
    healthy("LOS007", "0 % of the text of 10 answers"),
    alike("LOS007", "25 % of the text of 10 answers", looping=250),
    skips("LOS007", "no text was answered", characters=0),
    *(
        case
        for code, (name, problem) in KINDS.items()
        for case in (
            fires(code, f"{dict(ASKED)[name]}: {problem}", kinds=kind(name, problem=problem)),
            fires(
                code,
                "gone; the server did not outlive it",
                kinds=kind(name, problem="gone", survived=False),
            ),
            doubts(code, "not sent", kinds=kind(name, open="not sent")),
            healthy(code, "and the server answers on", kinds=kind(name)),
            skips(code, "the server refuses it: no", kinds=kind(name, refused="no")),
            skips(code, "no request of this kind", kinds=kind("another", problem="x")),
        )
    ),
)
