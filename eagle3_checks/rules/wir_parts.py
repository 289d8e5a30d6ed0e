"""WIR: ranks, embedding and head, and the ids of drafts, as the probe saw them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from eagle3_checks.contract.replay import State, replay
from eagle3_checks.contract.version import Contract, ContractError
from eagle3_checks.facts import DraftConfig, HeadsSeen, LoadSeen, Manifest, StatesSeen, Wiring
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.states import distance
from eagle3_checks.rules.text import counted, ids, listed

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
RANKS_DIFFER = 1e-3
"""Share by which the aux states of two ranks may differ: both hold the same sum."""
SHOWN = 4
"""Ranks that a message tells of."""
DOCS = "docs/wiring.md"


class WIR005(Rule):
    """All ranks load, capture and hand on the same."""

    title = "Every rank does the same"
    why = (
        "The drafter runs on every rank over the same states. Ranks that loaded other tensors, or "
        "took a state before it was summed over all of them, spoil each other's drafts."
    )
    fix = "Serve with --tp-size 1, or with --enforce-disable-flashinfer-allreduce-fusion."
    references = (DOCS, "https://github.com/sgl-project/sglang/pull/28343")

    @staticmethod
    def check(wiring: Wiring) -> Outcome:
        """Compare what the probe saw on each rank."""
        ranks = sorted({load.rank for load in wiring.loads} | {s.rank for s in wiring.states})
        if len(ranks) < 2:  # noqa: PLR2004 - one alone agrees with itself
            return Skip("a single rank serves")
        problems = [
            Problem(
                message=f"{what} differs from rank to rank: {told}",
                evidence={"ranks": ranks},
            )
            for what, told in _differences(wiring, ranks)
        ]
        return problems or Passed(message=f"{counted(len(ranks), 'rank')} agree")


def _differences(wiring: Wiring, ranks: Sequence[int]) -> Iterator[tuple[str, str]]:
    loads = {rank: _unset([x for x in wiring.loads if x.rank == rank]) for rank in ranks}
    captures = {
        rank: sorted({c.layers for c in wiring.captures if c.rank == rank}) for rank in ranks
    }
    layers = {rank: "; ".join(map(ids, seen)) or "none" for rank, seen in captures.items()}
    for what, by_rank in (("what was loaded", loads), ("what is captured", layers)):
        if len(set(by_rank.values())) > 1:
            yield what, "; ".join(f"rank {rank}: {by_rank[rank]}" for rank in ranks[:SHOWN])
    first: dict[tuple[int, ...], StatesSeen] = {}
    for seen in sorted(wiring.states, key=lambda s: s.rank):
        known = first.setdefault(seen.tokens, seen)
        apart = [distance(a.rows, b.rows) for a, b in zip(seen.states, known.states, strict=False)]
        if max(apart, default=0.0) > RANKS_DIFFER:
            apart_by = (
                f"rank {seen.rank} and rank {known.rank} by {100 * max(apart):.2g} %, as where a "
                "state is taken before its all-reduce"
            )
            yield "an aux state", apart_by
            return


def _unset(loads: Sequence[LoadSeen]) -> str:
    """Say which parameters a rank's drafter was left without."""
    if not loads:
        return "no drafter"
    names = sorted({n for load in loads for n in (*load.unwritten, *load.partly)})
    shared = {n for load in loads for n in load.shared}
    unset = [n for n in names if n not in shared]
    return f"{listed(unset)} unset" if unset else "all set"


class WIR006(Rule):
    """The drafter serves with the embedding and head that it is meant to."""

    title = "Embedding and head are the right ones"
    why = (
        "An EAGLE-3 drafter reads the target's embedding, unless it is of another width, and has a "
        "head of its own, unless it states no draft_vocab_size. With another embedding or head "
        "every draft is wrong, and nothing else shows it."
    )
    fix = "Look at KEY002, VOC001 and VAL006; then report it to SGLang."
    references = (DOCS, "https://github.com/vllm-project/vllm/pull/28549")

    @staticmethod
    def check(
        wiring: Wiring, manifest: Manifest, draft: DraftConfig, contract: Contract
    ) -> Outcome:
        """Compare what was seen in memory with what the loader of this version does."""
        if not wiring.heads:
            return Skip("the probe saw no embedding and head")
        try:
            plan = replay(manifest, draft, contract)
        except ContractError as error:
            return Skip(str(error))
        borrowed = {p.name: p.state is State.TARGET for p in plan.parameters}
        problems = tuple(
            problem
            for seen in wiring.heads[:1]
            for problem in _wrong_heads(seen, borrowed, tied=plan.dims.tied)
        )
        if problems:
            return problems
        told = [
            f"{name}: {_WHOSE.get(value, value)}"
            for name, value in (
                ("embedding", wiring.heads[0].embedding),
                ("head", wiring.heads[0].head),
            )
        ]
        return Passed(message=", ".join(told))


_WHOSE = {
    "same": "the target's",
    "equal": "equal to the target's",
    "other": "its own",
    "size": "its own",
    "unknown": "not compared",
}


def _wrong_heads(seen: HeadsSeen, borrowed: Mapping[str, bool], *, tied: bool) -> Iterator[Problem]:
    for what, name, value in (("embedding", EMBEDDING, seen.embedding), ("head", HEAD, seen.head)):
        if value == "unknown" or (what == "head" and tied):
            continue
        if borrowed.get(name) and value in ("other", "size"):
            yield Problem(
                message=f"the drafter's {what} must be the target's and holds other values",
                evidence={"seen": value, "parameter": name},
            )
        elif not borrowed.get(name, True) and value == "same":
            yield Problem(
                message=f"the drafter has {what} weights of its own, and serves the target's",
                evidence={"seen": value, "parameter": name},
            )


class WIR007(Rule):
    """Every draft is a token that the drafter's vocabulary maps to."""

    title = "Drafts lie inside the mapped ids"
    why = (
        "Draft ids become target ids by d2t. Where that step is left out, drafts are the first ids "
        "of the target's vocabulary, which are hardly ever accepted."
    )
    fix = "Look at d2t (VOC001 to VOC004), then report it to SGLang."
    references = (DOCS, "https://github.com/vllm-project/vllm/pull/18909")

    @staticmethod
    def check(wiring: Wiring) -> Outcome:
        """Judge the drafts of the first trees."""
        if not any(seen.tokens for seen in wiring.drafted):
            return Skip("the probe saw no drafts")
        problems = [
            Problem(
                message=(
                    f"{seen.outside} of {counted(seen.tokens, 'draft')} are none of the "
                    f"{counted(seen.allowed, 'id')} that may be drafted, as "
                    f"{listed([str(t) for t in seen.examples])}"
                ),
                evidence={"rank": seen.rank, "outside": seen.outside, "tokens": seen.tokens},
            )
            for seen in wiring.drafted
            if seen.outside
        ]
        if problems:
            return problems[:1]
        seen = wiring.drafted[0]
        return Passed(
            message=f"all of {counted(seen.tokens, 'draft')} are of the {seen.allowed} mapped ids"
        )


RULES: tuple[type[Rule], ...] = (WIR005, WIR006, WIR007)
