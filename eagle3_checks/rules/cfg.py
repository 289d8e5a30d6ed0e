"""CFG: whether config.json describes a drafter that this SGLang version serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eagle3_checks.checkpoint.config import language_config
from eagle3_checks.contract.dims import dims_of, served_class
from eagle3_checks.contract.version import Contract, ContractError, first_version
from eagle3_checks.facts import DraftConfig, TargetConfig
from eagle3_checks.profile import Speculation
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.text import listed
from eagle3_checks.verdict import Severity

LONGER = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
IN_CI = "SGLANG_IS_IN_CI"
LLAMA_POSITIONS = 2048
"""What transformers assumes where a Llama config states no max_position_embeddings."""
_CONTEXT_KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)


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
    def check(draft: DraftConfig, contract: Contract) -> Outcome:
        """Report architectures that this version does not know as drafters."""
        served = served_class(draft, contract)
        if served:
            return Passed(message=f"{served} is served by SGLang {contract.name}")
        seen = listed(draft.architectures) or "missing"
        later = [
            f"{name} is served from {since} on"
            for name in draft.architectures
            if (since := first_version(drafter_class=name))
        ]
        return (
            Problem(
                message=(
                    f"architectures is {seen}; SGLang {contract.name} serves "
                    f"{' and '.join(contract.classes)} as EAGLE-3 drafters"
                    + (f" ({'; '.join(later)})" if later else "")
                ),
                evidence={
                    "architectures": list(draft.architectures),
                    "served": list(contract.classes),
                },
            ),
        )


class CFG002(Rule):
    """The drafter's positions reach as far as the target's context."""

    title = "The drafter's context is as long as the target's"
    why = (
        "SGLang refuses to start a drafter whose max_position_embeddings is below the target's "
        f"context, unless {LONGER}=1 or {IN_CI}=1 is set, which overwrites the drafter's value; "
        "past the length it was trained on, its proposals are worth little."
    )
    fix = (
        "Raise max_position_embeddings in the drafter's config.json to the target's context, or "
        f"serve with --context-length no longer than the drafter's, or set {LONGER}=1 and know "
        "that the drafter runs beyond its training."
    )
    references = ("https://github.com/sgl-project/sglang/issues/3574",)
    requires = ("SRC002", "SRC003")

    @staticmethod
    def check(draft: DraftConfig, target: TargetConfig, contract: Contract) -> Outcome:
        """Compare the contexts as SGLang derives them."""
        wanted = context_length(language_config(target.raw))
        if wanted is None:
            return Skip("the target's config.json states no context length")
        seen = context_length(draft.raw)
        stated = "" if seen is not None else " (transformers' default: config.json states none)"
        seen = LLAMA_POSITIONS if seen is None else seen
        if seen >= wanted:
            return Passed(message=f"drafter {seen}, target {wanted}")
        refused = contract.context_beyond_draft == "refused"
        effect = f"refuses to start without {LONGER}=1 (or {IN_CI}=1)" if refused else "only warns"
        return (
            Problem(
                message=(
                    f"max_position_embeddings: the drafter's context is {seen}{stated}, the "
                    f"target's {wanted}; SGLang {contract.name} {effect}, unless --context-length "
                    f"is {seen} or less"
                ),
                evidence={"drafter": seen, "target": wanted},
                severity=Severity.ERROR if refused else Severity.WARNING,
            ),
        )


def context_length(config: Mapping[str, Any]) -> int | None:
    """Derive a context length as SGLang does, or None where the config states none.

    Source: ``get_context_length`` in sglang/srt/utils/hf_transformers/common.py.
    """
    scaling = config.get("rope_scaling")
    factor: float = 1
    if isinstance(scaling, Mapping) and scaling.get("rope_type") != "llama3":
        stated = scaling.get("factor", 1)
        scales = "original_max_position_embeddings" not in scaling
        if scales and isinstance(stated, int | float) and not isinstance(stated, bool):
            factor = stated
    for key in _CONTEXT_KEYS:
        value = config.get(key)
        if type(value) is int:
            return _scaled(value, factor)
    return None


def _scaled(value: int, factor: float) -> int:
    try:
        return int(value * factor)
    except (OverflowError, ValueError):
        return value


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
                    "otherwise no aux states are captured and fc is skipped (accept length 1.0)"
                ),
                evidence={"algorithm": speculation.algorithm},
            ),
        )


RULES: tuple[type[Rule], ...] = (CFG001, CFG002, CFG003, CFG004)
