"""CFG002: whether the drafter's positions reach as far as what is served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eagle3_checks.checkpoint.config import language_config
from eagle3_checks.contract.version import Contract
from eagle3_checks.facts import DraftConfig, TargetConfig
from eagle3_checks.profile import Server
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.pins import one_rope_dict
from eagle3_checks.rules.rope_values import effective
from eagle3_checks.rules.serving import IN_CI, LONGER, context_flag, context_override
from eagle3_checks.verdict import Severity

DEFAULT_POSITIONS = 2048
"""What SGLang and transformers' Llama config assume where nothing is stated."""
_DEFAULTS = {
    "kimi_k2": 4096,
    "deepseek_v3": 4096,
    "phi3": 4096,
    "qwen2": 32768,
    "qwen3": 32768,
    "qwen3_moe": 32768,
    "llama4_text": 131072,
}
"""What transformers' config classes state where config.json does not."""
_KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)


class CFG002(Rule):
    """The drafter's positions reach as far as the served context."""

    title = "The drafter's context is as long as the served one"
    why = (
        "SGLang does not start where the served context (--context-length, or all of the target's) "
        f"exceeds the drafter's max_position_embeddings, unless {LONGER}=1 or {IN_CI}=1 is set, "
        "which overwrites the drafter's value. Many public drafters are configured for 2048 "
        "positions and served so; past the length it was trained on, a drafter's proposals are "
        "worth little."
    )
    fix = (
        "Serve with --context-length no longer than the drafter's context, or raise "
        "max_position_embeddings in the drafter's config.json where it was trained on longer "
        f"texts, or set {LONGER}=1 and know that the drafter runs beyond its training."
    )
    references = (
        "https://github.com/sgl-project/sglang/issues/3574",
        "https://github.com/sgl-project/sglang/issues/6783",
    )
    requires = ("SRC002", "SRC003")

    @staticmethod
    def check(
        draft: DraftConfig,
        target: TargetConfig,
        contract: Contract,
        serving: Server | None = None,
    ) -> Outcome:
        """Compare the contexts as SGLang derives them; the flags decide how bad a short one is."""
        if draft.hidden_size is None:
            return Skip("config.json states no sizes at its top level (CFG003, CFG005)")
        limit = context_flag(serving)
        full = context_length(language_config(target.raw), contract)
        if limit is None and full is None:
            return Skip("the target's config.json states no context length")
        wanted = limit or full or 0
        whose = "--context-length is" if limit else "the target's is"
        seen = context_length(draft.raw, contract)
        stated = "" if seen is not None else " (the default: config.json states none)"
        seen = _DEFAULTS.get(draft.model_type or "", DEFAULT_POSITIONS) if seen is None else seen
        if seen >= wanted:
            return Passed(message=f"the drafter's context is {seen}{stated}, {whose} {wanted}")
        effect, severity = _effect(seen, contract, serving)
        return (
            Problem(
                message=(
                    f"max_position_embeddings: the drafter's context is {seen}{stated}, {whose} "
                    f"{wanted}; {effect}"
                ),
                evidence={"drafter": seen, "served": wanted, "target": full},
                severity=severity,
            ),
        )


def _effect(seen: int, contract: Contract, serving: Server | None) -> tuple[str, Severity]:
    """Say what SGLang does about a drafter's context that is too short."""
    if contract.context_beyond_draft == "warned":
        return f"SGLang {contract.name} only warns", Severity.WARNING
    override = context_override(serving)
    if override:
        beyond = f"past {seen} tokens it runs beyond its training"
        return f"{override} makes SGLang overwrite the drafter's: {beyond}", Severity.WARNING
    refusal = (
        f"SGLang {contract.name} refuses to start without {LONGER}=1 (or {IN_CI}=1), or "
        f"--context-length {seen} or less"
    )
    return refusal, Severity.WARNING if serving is None else Severity.ERROR


def context_length(config: Mapping[str, Any], contract: Contract) -> int | None:
    """Derive a context length as SGLang does, or None where the config states none.

    Source: ``get_context_length`` in sglang/srt/utils/hf_transformers/common.py.
    """
    if one_rope_dict(contract):
        scaling: Mapping[str, Any] = effective(config, contract).values
    else:
        stated = config.get("rope_scaling")
        scaling = stated if isinstance(stated, Mapping) else {}
    factor = scaling.get("factor", 1)
    known = "original_max_position_embeddings" in scaling or scaling.get("rope_type") == "llama3"
    if known or not isinstance(factor, int | float) or isinstance(factor, bool):
        factor = 1
    for key in _KEYS:
        value = config.get(key)
        if type(value) is int:
            return _scaled(value, factor)
    return None


def _scaled(value: int, factor: float) -> int:
    try:
        return int(value * factor)
    except (OverflowError, ValueError):
        return value
