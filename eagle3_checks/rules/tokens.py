"""VOC006 and VOC007: the draft vocabulary against the target's vocabulary and special tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eagle3_checks.checkpoint.files import shown
from eagle3_checks.checkpoint.values import VocabMap
from eagle3_checks.facts import DraftConfig, TargetConfig, Tokenizer
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.text import counted, listed
from eagle3_checks.verdict import Severity


class VOC006(Rule):
    """Every id that the drafter can propose is one of the target's."""

    title = "The drafter proposes ids of the target's vocabulary"
    why = (
        "A drafter for another vocabulary proposes ids that mean other tokens to the target, or "
        "that it does not have: an index out of bounds on the GPU. Some targets pad their "
        "vocabulary, and drafters are made for the padded or the plain size: that alone is "
        "harmless."
    )
    fix = "Check that drafter and target belong together; compare the tokenizers they were made by."
    references = ("https://github.com/SafeAILab/EAGLE/issues/258",)
    requires = ("SRC002", "SRC003")

    @staticmethod
    def check(draft: DraftConfig, target: TargetConfig, vocab: VocabMap) -> Outcome:
        """Error for mapped ids beyond the target's vocabulary, a warning for other sizes."""
        full, mine, rows = target.vocab_size, draft.vocab_size, draft.draft_vocab_size
        if full is None:
            return Skip("the target's config.json states no vocab_size")
        reached = max((i + offset for i, offset in enumerate(vocab.d2t or ())), default=0)
        if reached >= full:
            return (
                Problem(
                    message=(
                        f"d2t reaches target id {reached}; the target's vocab_size is {full}, so "
                        f"its ids end at {full - 1}"
                    ),
                    evidence={"reached": reached, "target": full},
                ),
            )
        if vocab.d2t is None and rows is not None and rows > full:
            return (
                Problem(
                    message=(
                        f"draft_vocab_size is {rows}, the target's vocab_size {full}: without d2t "
                        f"the rows from {full} on stand for ids that the target does not have"
                    ),
                    evidence={"draft_vocab_size": rows, "target": full},
                    severity=Severity.WARNING,
                ),
            )
        if mine is not None and mine != full:
            return (
                Problem(
                    message=(
                        f"the drafter's vocab_size is {mine}, the target's {full}: padding, or a "
                        "drafter for another target"
                    ),
                    evidence={"drafter": mine, "target": full},
                    severity=Severity.WARNING,
                ),
            )
        return Passed(message=f"vocab_size {full}")


class VOC007(Rule):
    """The draft vocabulary holds the tokens that end an answer, and the template's."""

    title = "The draft vocabulary holds the special tokens"
    severity = Severity.INFO
    why = (
        "A token outside the draft vocabulary is never proposed: each time the target generates "
        "it, a verify step is spent for one token. An end-of-answer token is missed once an "
        "answer, tokens of tool calls and thinking more often; those that the model only reads "
        "may be missing."
    )
    fix = "Build the draft vocabulary from generated answers, special tokens included."
    references = ("https://github.com/vllm-project/vllm/issues/50158",)
    requires = ("VOC003",)

    @staticmethod
    def check(draft: DraftConfig, vocab: VocabMap, tokenizer: Tokenizer | None = None) -> Outcome:
        """Name the tokens that are missing: each costs a verify step, which is no fault."""
        if vocab.d2t is None:
            return Skip("there is no d2t, so that the draft vocabulary is the target's")
        if tokenizer is None:
            return Skip("needs the target's tokenizer files (--target)")
        held = {i + offset for i, offset in enumerate(vocab.d2t)}
        ends = [i for i in tokenizer.ends if i not in held]
        named = _named(tokenizer)
        others = [i for i in named if i not in held and i not in tokenizer.ends]
        problems = tuple(_missing(tokenizer, ends, others, draft))
        if problems:
            return problems
        if not tokenizer.ends and not named:
            return Skip(f"{listed(tokenizer.files)} name no special tokens")
        return Passed(
            message=(
                f"{counted(len(tokenizer.ends), 'end token')} and "
                f"{counted(len(named), 'token')} of the chat template"
            )
        )


def _named(tokenizer: Tokenizer) -> list[int]:
    """Return the special tokens that the chat template spells out; it is never run."""
    return [i for i, text in tokenizer.special.items() if text and text in tokenizer.template]


def _missing(
    tokenizer: Tokenizer, ends: Sequence[int], others: Sequence[int], draft: DraftConfig
) -> Iterator[Problem]:
    rows = f"the draft vocabulary ({draft.draft_vocab_size} ids)"
    if ends:
        none = len(ends) == len(tokenizer.ends)
        yield Problem(
            message=(
                f"{rows} lacks {'every' if none else 'an'} end of an answer: "
                f"{_described(tokenizer, ends)}"
            ),
            evidence={"ids": list(ends)},
        )
    if others:
        yield Problem(
            message=(
                f"{rows} lacks {counted(len(others), 'token')} that the chat template names: "
                f"{_described(tokenizer, others)}"
            ),
            evidence={"ids": list(others)},
        )


def _described(tokenizer: Tokenizer, missing: Sequence[int], limit: int = 4) -> str:
    named = [f"{i} ({shown(tokenizer.special.get(i, '?'), 30)})" for i in missing[:limit]]
    more = len(missing) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


RULES: tuple[type[Rule], ...] = (VOC006, VOC007)
