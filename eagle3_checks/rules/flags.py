"""CFG023 and CFG024: flags of the server that do not fit each other, or the drafter."""

from __future__ import annotations

from collections.abc import Iterator

from eagle3_checks.contract.dims import served_class
from eagle3_checks.contract.version import Contract
from eagle3_checks.facts import DraftConfig
from eagle3_checks.profile import Server, Speculation
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.serving import given
from eagle3_checks.verdict import Severity


class CFG023(Rule):
    """The speculation flags make a tree, or a chain, that SGLang can build."""

    title = "Steps, topk and draft tokens fit each other"
    why = (
        "A chain of n steps has n + 1 draft tokens, the bonus token's place included; SGLang "
        "corrects any other number. A tree cannot have more tokens than its branches: SGLang then "
        "asks for more of the best candidates than there are, and stops."
    )
    fix = "Set speculation.draft_tokens to steps + 1 at topk 1, or lower it for a tree."
    references = ("https://github.com/sgl-project/sglang/issues/8228",)

    @staticmethod
    def check(speculation: Speculation) -> Outcome:
        """Warn of a chain's corrected number; error for a tree that cannot be built."""
        steps, topk, tokens = speculation.steps, speculation.topk, speculation.draft_tokens
        if speculation.chain:
            if tokens == steps + 1:
                return Passed(message=f"a chain of {steps} steps, {tokens} draft tokens")
            return (
                Problem(
                    message=(
                        f"speculation.draft_tokens is {tokens}; at topk 1 SGLang serves "
                        f"{steps + 1} = steps {steps} + 1"
                    ),
                    evidence={"draft_tokens": tokens, "served": steps + 1},
                    severity=Severity.WARNING,
                ),
            )
        candidates = topk + (steps - 1) * topk * topk
        if tokens - 1 <= candidates:
            return Passed(message=f"a tree of {tokens} draft tokens, from {candidates} candidates")
        return (
            Problem(
                message=(
                    f"speculation.draft_tokens is {tokens}; a tree of {steps} steps and topk "
                    f"{topk} has {candidates} = {topk} + ({steps} - 1) x {topk} x {topk} "
                    "candidates, and SGLang stops where it asks for more"
                ),
                evidence={"draft_tokens": tokens, "candidates": candidates},
            ),
        )


class CFG024(Rule):
    """No flag of the server contradicts the drafter."""

    title = "The server's flags fit the drafter"
    why = (
        "Rejection sampling needs one vocabulary on both sides and is refused for a reduced one; "
        "multi-layer EAGLE is for drafters of another kind; a token map is ignored, since an "
        "EAGLE-3 drafter brings its own."
    )
    fix = "Take the flag out of server.args."
    references = ("https://github.com/sgl-project/sglang/pull/36594",)
    requires = ("SRC002", "CFG001")

    @staticmethod
    def check(draft: DraftConfig, contract: Contract, serving: Server | None = None) -> Outcome:
        """Judge the profile's flags; without one nothing is known."""
        if serving is None:
            return Skip("needs the server flags of a profile")
        problems = tuple(_contradictions(draft, contract, serving))
        return problems or Passed(message="none against it")


def _contradictions(draft: DraftConfig, contract: Contract, serving: Server) -> Iterator[Problem]:
    rows, full = draft.draft_vocab_size, draft.vocab_size
    flag = "--speculative-use-rejection-sampling"
    if given(serving, flag) and rows is not None and full is not None and rows != full:
        yield Problem(
            message=(
                f"{flag} is given, but draft_vocab_size {rows} differs from vocab_size {full}: "
                "SGLang refuses to start"
            ),
            evidence={"flag": flag},
        )
    flag = "--enable-multi-layer-eagle"
    if given(serving, flag):
        yield Problem(
            message=f"{flag} is given, which {served_class(draft, contract)} is not made for",
            evidence={"flag": flag},
            severity=Severity.WARNING,
        )
    flag = "--speculative-token-map"
    if given(serving, flag):
        yield Problem(
            message=f"{flag} is given; SGLang ignores it for an EAGLE-3 drafter, which has d2t",
            evidence={"flag": flag},
            severity=Severity.WARNING,
        )


RULES: tuple[type[Rule], ...] = (CFG023, CFG024)
