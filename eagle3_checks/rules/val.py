"""VAL: whether the values of the tensors are those of a trained drafter (--values)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eagle3_checks.checkpoint.values import VocabMap
from eagle3_checks.contract.version import Contract
from eagle3_checks.facts import DraftConfig, Manifest, TensorStats, TensorValues
from eagle3_checks.rules import scales
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.plan import unused_tensors
from eagle3_checks.rules.scales import FILES, UNASKED, is_head, judged
from eagle3_checks.rules.src import told
from eagle3_checks.rules.text import grouped, ids, listed
from eagle3_checks.verdict import Severity

PRUNED = "https://github.com/lightseekorg/TorchSpec/blob/main/tools/convert_to_hf.py"
FEW = 8
"""Repeated rows that may be chance or padding."""


class VAL001(Rule):
    """Every element is a finite number."""

    title = "No value is NaN or infinite"
    why = (
        "One NaN in a weight makes every proposal NaN. Some trainers start their head and "
        "embedding as NaN, so that they are noticed where they were never loaded; nothing in "
        "SGLang notices."
    )
    fix = "Export the drafter again from a checkpoint of before the loss broke, and look at it."
    references = ("https://github.com/vllm-project/speculators",)
    requires = FILES

    @staticmethod
    def check(
        manifest: Manifest,
        draft: DraftConfig,
        contract: Contract,
        values: TensorValues | None = None,
    ) -> Outcome:
        """Report each tensor that has any; a warning where SGLang never uses it."""
        if values is None:
            return UNASKED
        if values.problems:
            return tuple(told(values.problems))
        unused = unused_tensors(manifest, draft, contract)
        problems = tuple(
            _broken(seen, unused.get(name))
            for name, seen in values.tensors.items()
            if seen.non_finite
        )
        return problems or Passed(message=judged(values))


def _broken(seen: TensorStats, unused: str | None) -> Problem:
    elements = _elements(seen)
    whole = seen.non_finite == elements
    share = "all" if whole else f"{grouped(seen.non_finite)} of {grouped(elements)}"
    cause = ", as before it is loaded for the first time" if whole else ""
    return Problem(
        message=(
            f"{listed([seen.name])}: {share} elements are NaN or infinite{cause}"
            + (f"; {unused}" if unused else "")
        ),
        evidence={"tensor": seen.name, "non_finite": seen.non_finite, "elements": elements},
        severity=Severity.WARNING if unused else Severity.ERROR,
    )


class VAL002(Rule):
    """No weight is zero throughout, nor most rows of the head."""

    title = "No weight is all zero"
    why = (
        "A weight of zeros passes nothing on: one that was allocated and never filled, or a hole "
        "in a file that was copied in part. A head row of zeros is a token that is never proposed."
    )
    fix = "Copy or export the file again, and compare it with its source."
    requires = FILES

    @staticmethod
    def check(
        manifest: Manifest,
        draft: DraftConfig,
        contract: Contract,
        values: TensorValues | None = None,
    ) -> Outcome:
        """Report tensors and head rows of zeros; biases may be zero."""
        if values is None:
            return UNASKED
        unused = unused_tensors(manifest, draft, contract)
        problems: list[Problem] = []
        for name, seen in values.tensors.items():
            if seen.all_zero and not name.endswith(".bias"):
                reason = unused.get(name)
                problems.append(
                    Problem(
                        message=f"{listed([name])} {list(seen.shape)} is all zero"
                        + (f"; {reason}" if reason else ""),
                        evidence={"tensor": name},
                        severity=Severity.WARNING if reason else Severity.ERROR,
                    )
                )
            elif seen.zero_rows and name not in unused and is_head(name):
                problems.extend(_zero_rows(seen, draft))
        return problems or Passed(message=judged(values))


def _zero_rows(seen: TensorStats, draft: DraftConfig) -> Iterator[Problem]:
    rows, blank = seen.shape[0], len(seen.zero_rows)
    most = 2 * blank >= rows
    # A head of the whole vocabulary has padding rows, which belong to no token.
    reduced = draft.draft_vocab_size not in (None, draft.vocab_size)
    if most or reduced:
        yield Problem(
            message=(
                f"{blank} of {rows} rows of {listed([seen.name])} are zero, as "
                f"{ids(seen.zero_rows[:3])}"
            ),
            evidence={"tensor": seen.name, "rows": blank},
            severity=Severity.ERROR if most else Severity.WARNING,
        )


class VAL003(Rule):
    """The rows of the head differ, as those of different tokens do."""

    title = "The head's rows differ"
    why = (
        "A whole head that is cut down to the draft vocabulary by the offsets in d2t, and not by "
        "the ids they stand for, repeats one row wherever neighbouring tokens share an offset: "
        "the drafter proposes the wrong token for all of them (TorchSpec's --prune-vocab)."
    )
    fix = "Cut the head with lm_head[arange + d2t], from the unpruned export."
    references = (PRUNED,)
    requires = FILES

    @staticmethod
    def check(vocab: VocabMap, values: TensorValues | None = None) -> Outcome:
        """Error where repeated rows follow d2t, a warning for many others."""
        if values is None:
            return UNASKED
        head = next((s for n, s in values.tensors.items() if is_head(n)), None)
        if head is None or len(head.shape) != 2:  # noqa: PLR2004 - a matrix
            return Skip("the file has no lm_head.weight that can be judged")
        rows, repeated = head.shape[0], len(head.repeats)
        followed, could = _by_offset(head.repeats, vocab.d2t)
        if followed > FEW and 2 * followed >= could:
            return (
                Problem(
                    message=(
                        f"{repeated} of {rows} rows of {head.name} repeat an earlier row, and "
                        f"{followed} of them one with the same offset in d2t: the head was cut by "
                        "offset, not by id"
                    ),
                    evidence={"rows": rows, "repeated": repeated, "by_offset": followed},
                ),
            )
        reduced = vocab.d2t is not None and any(vocab.d2t)
        if repeated > FEW and repeated * (100 if reduced else 2) > rows:
            pairs = [f"{row} = {first}" for row, first in list(head.repeats.items())[:3]]
            return (
                Problem(
                    message=(
                        f"{repeated} of {rows} rows of {head.name} repeat an earlier row, as "
                        f"{listed(pairs)}"
                    ),
                    evidence={"rows": rows, "repeated": repeated},
                    severity=Severity.WARNING,
                ),
            )
        return Passed(message=f"{rows} rows, {repeated} of them repeated")


def _by_offset(repeats: Mapping[int, int], d2t: tuple[int, ...] | None) -> tuple[int, int]:
    """Count the rows that repeat the first row of their offset, and those that could."""
    first: dict[int, int] = {}
    followed = could = 0
    for row, offset in enumerate(d2t or ()):
        if offset in first:
            could += 1
            followed += repeats.get(row) == first[offset]
        else:
            first[offset] = row
    return followed, could


def _elements(seen: TensorStats) -> int:
    total = 1
    for size in seen.shape:
        total *= size
    return total


RULES: tuple[type[Rule], ...] = (VAL001, VAL002, VAL003, *scales.RULES)
