"""VOC: whether draft ids lead to the target ids that they were trained for."""

from __future__ import annotations

from collections.abc import Iterator

from eagle3_checks.checkpoint.values import VocabMap, find_map
from eagle3_checks.contract.dims import Dims
from eagle3_checks.contract.version import Contract
from eagle3_checks.facts import DraftConfig, Manifest
from eagle3_checks.rules import tokens
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.plan import plan_of
from eagle3_checks.rules.src import told
from eagle3_checks.rules.text import ids, shape
from eagle3_checks.verdict import Severity

REDUCED = "https://github.com/vllm-project/vllm/pull/18909"
ENOUGH = 16
"""Rows from which on values that are all different are no chance."""
FILES = ("SRC001", "SRC002", "SRC004", "CFG001", "CFG003")


class VOC001(Rule):
    """d2t has an entry for each row of the head, and is there where the vocabulary is reduced."""

    title = "d2t, head and draft vocabulary have one size"
    why = (
        "SGLang turns a draft id into a target id by d2t and checks no sizes. A d2t of another "
        "length maps rows of the head to the wrong tokens, or runs out of bounds; without one, "
        "draft ids are taken for target ids."
    )
    fix = "Export d2t, lm_head.weight and draft_vocab_size from one training run."
    references = (REDUCED, "https://github.com/sgl-project/SpecForge/pull/602")
    requires = FILES

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Compare the sizes, from headers and config alone."""
        plan = plan_of(manifest, draft, contract)
        if isinstance(plan, Skip):
            return plan
        problems = tuple(_sizes(manifest, plan.dims, contract))
        if problems:
            return problems
        mapped = "d2t" if plan.token_map else "no d2t needed"
        return Passed(message=f"{plan.dims.draft_vocab} of {plan.dims.vocab} ids, {mapped}")


def _sizes(manifest: Manifest, dims: Dims, contract: Contract) -> Iterator[Problem]:
    d2t, t2d = find_map(manifest, "d2t"), find_map(manifest, "t2d")
    rows = dims.draft_vocab
    if d2t is None and rows < dims.vocab and not dims.tied:
        yield Problem(
            message=(
                f"d2t is missing: draft_vocab_size {rows} is below vocab_size {dims.vocab}, so "
                f"SGLang takes draft ids for target ids 0 to {rows - 1}"
            ),
            evidence={"draft_vocab_size": rows, "vocab_size": dims.vocab},
        )
    elif d2t is None and contract.llama.requires_d2t and not dims.mla:
        yield Problem(
            message=f"d2t is missing; SGLang {contract.name} stops without one",
            fix="Export a d2t of zeros, or serve with SGLang 0.4.9 or later.",
        )
    if d2t is not None and d2t.shape != (rows,):
        yield Problem(
            message=(
                f"d2t is {shape(d2t.shape)}; draft_vocab_size is {rows}, the rows of the head, and "
                "each needs one entry"
            ),
            evidence={"d2t": list(d2t.shape), "draft_vocab_size": rows},
        )
    if t2d is not None and t2d.shape != (dims.vocab,):
        yield Problem(
            message=(
                f"t2d is {shape(t2d.shape)}; vocab_size is {dims.vocab}: the mapping was made for "
                "another vocabulary (SGLang itself ignores t2d)"
            ),
            evidence={"t2d": list(t2d.shape), "vocab_size": dims.vocab},
            severity=Severity.WARNING,
        )


class VOC002(Rule):
    """d2t is filled: it does not map every draft id to itself by default."""

    title = "d2t is not all zero"
    why = (
        "d2t holds offsets: draft id i stands for target id i + d2t[i]. All zero with a reduced "
        "vocabulary is a buffer that was never loaded: every proposal is one of the first ids, "
        "and nothing is accepted. Where t2d keeps just the first ids, the drafter was trained on "
        "them: consistent, and worth little, since the common tokens are not the first."
    )
    fix = "Export d2t from the training run, where the vocabulary mapping was built."
    references = (
        REDUCED,
        "https://github.com/NVIDIA-NeMo/Automodel/pull/2447",
        "https://github.com/verl-project/verl-SpeCo/pull/66",
    )
    requires = ("VOC001",)

    @staticmethod
    def check(draft: DraftConfig, vocab: VocabMap) -> Outcome:
        """Report zeros: an error where t2d says otherwise, else a warning."""
        if vocab.d2t is None:
            return Skip("there is no d2t that could be read")
        rows, full = len(vocab.d2t), draft.vocab_size
        if any(vocab.d2t):
            moved = sum(1 for offset in vocab.d2t if offset)
            return Passed(message=f"{moved} of {rows} draft ids stand for another target id")
        if full is None or rows >= full:
            return Passed(message="all zero, and right: the vocabulary is not reduced")
        consistent = vocab.kept == tuple(range(rows))
        told_by = "there is no t2d to confirm that these are the kept ids"
        if consistent:
            told_by = "t2d keeps just these, as where a trainer was given no mapping"
        elif vocab.kept is not None:
            told_by = f"t2d keeps {len(vocab.kept)} ids, and not these"
        return (
            Problem(
                message=(
                    f"d2t is all zero: draft ids 0 to {rows - 1} stand for target ids 0 to "
                    f"{rows - 1} of {full}; {told_by}"
                ),
                evidence={"draft_vocab_size": rows, "vocab_size": full},
                severity=Severity.WARNING if consistent or vocab.kept is None else None,
            ),
        )


class VOC003(Rule):
    """Every draft id stands for a target id of its own."""

    title = "d2t maps to distinct ids of the target's vocabulary"
    why = (
        "SGLang adds the draft id to d2t and checks nothing. Absolute ids stored as offsets, or a "
        "mapping for another vocabulary, run past the vocabulary or send two draft ids to one "
        "token: wrong proposals, or an index out of bounds on the GPU."
    )
    fix = "Store offsets, d2t[i] = target id - i, as int64, in the order of the head's rows."
    references = (REDUCED,)
    requires = ("VOC001",)

    @staticmethod
    def check(draft: DraftConfig, vocab: VocabMap) -> Outcome:
        """Report values that cannot be read, out of range or double."""
        if vocab.problems:
            return tuple(told(vocab.problems))
        if vocab.d2t is None or draft.vocab_size is None:
            return Skip("there is no d2t")
        problems = tuple(_targets(vocab, draft.vocab_size))
        return problems or Passed(message=f"{len(vocab.d2t)} distinct ids below {draft.vocab_size}")


def _targets(vocab: VocabMap, full: int) -> Iterator[Problem]:
    offsets = vocab.d2t or ()
    targets = [draft_id + offset for draft_id, offset in enumerate(offsets)]
    outside = [i for i, target in enumerate(targets) if not 0 <= target < full]
    rows = len(targets)
    # Offsets repeat, since neighbouring ids share one; ids do not.
    absolute = rows >= ENOUGH and len(set(offsets)) == rows and all(0 <= o < full for o in offsets)
    cause = "; the values look like target ids stored in place of offsets" if absolute else ""
    if outside:
        first = outside[0]
        yield Problem(
            message=(
                f"d2t sends {len(outside)} of {rows} draft ids out of the vocabulary, as draft id "
                f"{first} to {first} + {offsets[first]} = {targets[first]}; vocab_size is {full}"
                f"{cause}"
            ),
            evidence={"outside": len(outside), "vocab_size": full},
        )
    double = rows - len(set(targets))
    if double:
        yield Problem(
            message=f"d2t sends {double} of {rows} draft ids to a target id that has one{cause}",
            evidence={"double": double},
        )
    if outside or double:
        return
    if absolute and rows < full and (vocab.kept is None or set(offsets) == set(vocab.kept)):
        yield _absolute(vocab, rows)
    elif vocab.kept is not None and any(offsets):
        strays = sorted(set(targets) - set(vocab.kept))
        if strays:
            yield Problem(
                message=(
                    f"d2t and t2d disagree: {len(strays)} target ids of d2t are not kept by t2d, "
                    f"as {ids(strays[:3])} (SGLang itself ignores t2d)"
                ),
                evidence={"strays": len(strays)},
                severity=Severity.WARNING,
            )


def _absolute(vocab: VocabMap, rows: int) -> Problem:
    """Report a map whose values are all different, as ids are and offsets hardly ever."""
    proof = (
        "they are the ids that t2d keeps"
        if vocab.kept is not None
        else "offsets repeat wherever two neighbouring ids are kept"
    )
    return Problem(
        message=(
            f"the {rows} values of d2t are all different, as target ids are: {proof}; SGLang adds "
            "the draft id to each"
        ),
        evidence={"rows": rows},
        fix="Subtract the draft id: d2t[i] = target id - i.",
        severity=Severity.WARNING if vocab.kept is None else Severity.ERROR,
    )


class VOC004(Rule):
    """A reduced vocabulary has a head of its own: the embedding is not tied to it."""

    title = "A reduced head is not tied to the embedding"
    why = (
        "tie_word_embeddings: true makes SGLang use the embedding as the head: its first rows, one "
        "for each of the first target ids, stand in for the rows that were trained. Proposals are "
        "wrong, or out of bounds. Configs inherit the flag from small targets whose own head is "
        "tied."
    )
    fix = "Write tie_word_embeddings: false in the drafter's config.json."
    references = (
        "https://github.com/sgl-project/SpecForge/issues/139",
        "https://github.com/Tencent/AngelSlim/issues/16",
    )
    requires = ("SRC002", "CFG001", "CFG003")

    @staticmethod
    def check(draft: DraftConfig) -> Outcome:
        """Report the flag where the draft vocabulary is reduced."""
        rows, full = draft.draft_vocab_size, draft.vocab_size
        if not draft.tie_word_embeddings:
            return Passed(message="tie_word_embeddings is false")
        if rows is None or full is None or rows == full:
            return Passed(message="tied, and the vocabulary is not reduced")
        return (
            Problem(
                message=(
                    f"tie_word_embeddings is true and draft_vocab_size {rows} differs from "
                    f"vocab_size {full}: the embedding's first {rows} rows serve as the head"
                ),
                evidence={"draft_vocab_size": rows, "vocab_size": full},
            ),
        )


class VOC005(Rule):
    """t2d marks as many tokens as the draft vocabulary has."""

    title = "t2d was filled by the trainer"
    severity = Severity.WARNING
    why = (
        "SGLang ignores t2d, but it is written together with d2t: all true or all false is a "
        "buffer that was never loaded, and another number of tokens than the draft vocabulary "
        "means that the mapping was built from too little data, or for another drafter."
    )
    fix = "Export d2t and t2d from the training run, where the vocabulary mapping was built."
    references = ("https://github.com/SafeAILab/EAGLE/issues/248",)
    requires = ("VOC001",)

    @staticmethod
    def check(draft: DraftConfig, vocab: VocabMap) -> Outcome:
        """Count the tokens that are kept."""
        if vocab.kept is None:
            return Skip("there is no t2d")
        rows = draft.draft_vocab_size or draft.vocab_size
        kept, length = len(vocab.kept), vocab.t2d_length or 0
        if rows is None or kept == rows:
            return Passed(message=f"t2d keeps {kept} of {length} tokens")
        unfilled = {0: "all false", length: "all true"}.get(kept)
        return (
            Problem(
                message=(
                    f"t2d is {unfilled}, as before a mapping is loaded; it must keep {rows} of "
                    f"{length} tokens = draft_vocab_size"
                    if unfilled
                    else f"t2d keeps {kept} tokens; draft_vocab_size is {rows}"
                ),
                evidence={"kept": kept, "draft_vocab_size": rows},
            ),
        )


RULES: tuple[type[Rule], ...] = (VOC001, VOC002, VOC003, VOC004, VOC005, *tokens.RULES)
