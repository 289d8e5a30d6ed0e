"""CFG: whether config.json describes a drafter that this SGLang version serves."""

from __future__ import annotations

from eagle3_checks.contract.dims import dims_of, served_class
from eagle3_checks.contract.version import Contract, ContractError, first_version
from eagle3_checks.facts import DraftConfig, TargetConfig
from eagle3_checks.profile import Speculation
from eagle3_checks.rules import context, counts, dtype, fields, flags, norms, quant, rope
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.text import listed


class CFG001(Rule):
    """The architecture is one that SGLang serves as an EAGLE-3 drafter."""

    title = "The architecture is an EAGLE-3 drafter of this SGLang version"
    why = (
        "SGLang chooses the drafter's class by its architecture. Under LlamaForCausalLM, or a "
        "trainer's own name, it builds another model, or stops after the target was loaded."
    )
    fix = 'Write "architectures": ["LlamaForCausalLMEagle3"] in the drafter\'s config.json.'
    references = ("https://github.com/sgl-project/sglang/pull/33966",)
    requires = ("SRC002",)

    @staticmethod
    def check(
        draft: DraftConfig, contract: Contract, target: TargetConfig | None = None
    ) -> Outcome:
        """Report architectures that this version does not know as drafters."""
        served = served_class(draft, contract)
        if served:
            return Passed(message=f"{served} is served by SGLang {contract.name}")
        seen = listed(draft.architectures) or "missing"
        if set(draft.architectures) & set(contract.classes):
            first = next(n for n in draft.architectures if n in contract.targets)
            seen += f", and SGLang takes the first that it knows, {first}"
        later = [
            f"{name} is served from {since} on"
            for name in draft.architectures
            if name not in contract.classes and (since := first_version(drafter_class=name))
        ]
        swapped = target is not None and set(target.architectures) & set(contract.classes)
        return (
            Problem(
                message=(
                    f"architectures is {seen}; SGLang {contract.name} serves "
                    f"{' and '.join(contract.classes)} as EAGLE-3 drafters"
                    + (f" ({'; '.join(later)})" if later else "")
                    + ("; the target's is one: are the two swapped?" if swapped else "")
                ),
                evidence={
                    "architectures": list(draft.architectures),
                    "served": list(contract.classes),
                },
                fix="Give the drafter first and its target as --target." if swapped else "",
            ),
        )


class CFG003(Rule):
    """SGLang can build the drafter's module from the sizes in its config."""

    title = "The sizes in config.json suffice to build the drafter"
    why = (
        "A size that is missing is filled in with another model's default, or stops the server "
        "after the target was loaded; draft_vocab_size must be stated, be it as null."
    )
    fix = "State the drafter's own sizes in its config.json."
    references = ("https://github.com/SafeAILab/EAGLE/issues/214",)
    requires = ("SRC002", "CFG001")

    @staticmethod
    def check(draft: DraftConfig, contract: Contract) -> Outcome:
        """Report the first size that is missing or impossible."""
        try:
            dims = dims_of(draft, contract)
        except ContractError as error:
            return (Problem(message=str(error)),)
        return Passed(
            message=(
                f"{dims.drafter_class}: hidden_size {dims.hidden}, {dims.formula}, draft "
                f"vocabulary {dims.draft_vocab} of {dims.vocab}"
            )
        )


class CFG004(Rule):
    """An EAGLE-3 drafter is served under EAGLE3, not EAGLE."""

    title = "The speculation algorithm is EAGLE3"
    why = (
        "Under EAGLE the target captures no aux states: the drafter is handed one hidden state, "
        "skips fc because the widths agree, and accepts nothing. The server says nothing."
    )
    fix = "Serve with --speculative-algorithm EAGLE3 (speculation.algorithm in the profile)."
    references = ("https://github.com/sgl-project/sglang/pull/21272",)
    requires = ("CFG001",)

    @staticmethod
    def check(draft: DraftConfig, contract: Contract, speculation: Speculation) -> Outcome:
        """Report another algorithm for a class that only EAGLE3 feeds."""
        served = served_class(draft, contract)
        if served is None:
            return Skip("the architecture is no EAGLE-3 drafter (CFG001)")
        if speculation.algorithm.upper() == "EAGLE3":
            return ()
        return (
            Problem(
                message=(
                    f"speculation.algorithm is {speculation.algorithm}; {served} needs EAGLE3: "
                    "otherwise no aux states are captured and fc is skipped (accept length near 1)"
                ),
                evidence={"algorithm": speculation.algorithm},
            ),
        )


RULES: tuple[type[Rule], ...] = (
    CFG001,
    context.CFG002,
    CFG003,
    CFG004,
    *fields.RULES,
    *rope.RULES,
    *dtype.RULES,
    *quant.RULES,
    *norms.RULES,
    *counts.RULES,
    *flags.RULES,
)
