"""CFG005 to CFG008: fields of config.json that stop the server, or build another module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from eagle3_checks.checkpoint.config import NESTED_LAYER
from eagle3_checks.checkpoint.files import shown
from eagle3_checks.contract.dims import Dims, dims_of, served_class
from eagle3_checks.contract.version import LLAMA, MLA, Contract, ContractError
from eagle3_checks.facts import DraftConfig, Manifest, TargetConfig
from eagle3_checks.profile import Server
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.counts import IDS
from eagle3_checks.rules.pins import strict_types, transformers
from eagle3_checks.rules.serving import context_override
from eagle3_checks.rules.text import ids, listed
from eagle3_checks.verdict import Severity

_FLOATS = ("rms_norm_eps", "initializer_range")
_NEVER_NULL: Mapping[str, type] = {
    "vocab_size": int,
    "hidden_size": int,
    "intermediate_size": int,
    "num_hidden_layers": int,
    "num_attention_heads": int,
    "max_position_embeddings": int,
    "rms_norm_eps": float,
    "initializer_range": float,
    "hidden_act": str,
    "use_cache": bool,
    "tie_word_embeddings": bool,
    "attention_bias": bool,
}
"""Fields that LlamaConfig, DeepseekV3Config and Qwen3Config of transformers 5 declare so."""
_ALWAYS_NEEDED = ("rms_norm_eps", "hidden_act", "max_position_embeddings")
"""Fields that SGLang calculates with, whatever transformers says of them."""
_WORDS = {int: "a whole number", float: "a decimal number", str: "a text", bool: "true or false"}
_USUAL = frozenset(
    {
        "llama",
        "kimi_k2",
        "deepseek_v3",
        "qwen2",
        "qwen3",
        "qwen3_moe",
        "phi3",
        "mistral",
        "llama4_text",
    }
)
"""Model types that trainers write for drafters."""
_ACTIVATION = "silu"
_HEAD_DIMS = (64, 128, 192, 256)
"""Sizes that the attention kernels of SGLang's backends are made for."""


class CFG005(Rule):
    """The sizes stand at the top level of config.json, where SGLang looks for them."""

    title = "config.json is flat"
    why = (
        f"speculators nests the decoder layer's sizes in {NESTED_LAYER}, without a model_type at "
        "the top. transformers does not recognise such a config, and SGLang does not start."
    )
    fix = (
        "Repackage the drafter for SGLang (eagle3-checks repackage), or ask for a copy that is "
        "made for it."
    )
    references = (
        "https://github.com/sgl-project/sglang/pull/33966",
        "https://github.com/vllm-project/speculators/issues/753",
    )
    requires = ("SRC002",)

    @staticmethod
    def check(draft: DraftConfig) -> Outcome:
        """Report a nested layer whose sizes are not at the top level as well."""
        nested = draft.nested_layer
        if nested is None:
            return Passed(message="the sizes are at the top level")
        absent = [key for key in ("model_type", "hidden_size") if draft.raw.get(key) is None]
        if not absent:
            return Passed(message=f"the sizes are at the top level too, beside {NESTED_LAYER}")
        return (
            Problem(
                message=(
                    f"the decoder layer's sizes are in {NESTED_LAYER}, and {listed(absent)} "
                    f"{'is' if len(absent) == 1 else 'are'} not at the top level: this is "
                    "speculators' form, which SGLang cannot read"
                ),
                evidence={"absent": absent, "nested": sorted(nested)},
                fix=" ".join(_steps(draft, nested)),
            ),
        )


def _steps(draft: DraftConfig, nested: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"Move {listed(sorted(nested), 5)} from {NESTED_LAYER} to the top level, write "
        f'"model_type": "llama" and "architectures": ["{LLAMA}"].'
    )
    if "target_hidden_size" in draft.raw and draft.target_hidden_size is None:
        yield "Remove target_hidden_size: null."
    if draft.aux_layer_ids_top_level:
        yield (
            f"Put the ids {ids(draft.aux_layer_ids_top_level)} into eagle_config.{IDS}, each less "
            "1 where the target's class adds 1 (speculators counts the inputs of layers)."
        )


class CFG006(Rule):
    """transformers knows the model_type."""

    title = "model_type is one that transformers knows"
    why = (
        "SGLang reads config.json through transformers, which chooses the class of the config by "
        "model_type, and with it the fields that exist and their defaults. Without one, or with a "
        "trainer's own, the server does not start."
    )
    fix = 'Write "model_type": "llama" (or "kimi_k2" for an MLA drafter).'
    references = ("https://github.com/Tencent/AngelSlim/issues/138",)
    requires = ("SRC002",)

    @staticmethod
    def check(draft: DraftConfig) -> Outcome:
        """Report a missing type as an error, an unusual one as a warning."""
        kind = draft.model_type
        if not kind:
            return (_untold(draft),)
        if kind in _USUAL:
            return Passed(message=kind)
        return (
            Problem(
                message=(
                    f"model_type is {shown(kind)}; trainers write {listed(sorted(_USUAL), 9)} for "
                    "drafters, and transformers refuses a type it does not know"
                ),
                evidence={"model_type": kind},
                severity=Severity.WARNING,
            ),
        )


def _untold(draft: DraftConfig) -> Problem:
    """Say what a missing model_type leads to: transformers looks for one in the folder's name."""
    guess = next((k for k in sorted(_USUAL, key=len, reverse=True) if k in draft.source), None)
    effect = f"guesses {guess} from the folder's name" if guess else "refuses the config"
    return Problem(
        message=f"model_type is missing; transformers {effect}",
        evidence={"guess": guess},
        severity=Severity.WARNING if guess else Severity.ERROR,
    )


class CFG007(Rule):
    """Every field has the type that transformers asks for, and a value SGLang has."""

    title = "Fields have the type and value that the engine takes"
    why = (
        "From 5.6 on transformers checks the type of every field: a null where a number or flag "
        "is expected, as some exporters write for use_cache, stops the server. SGLang's MLP knows "
        "silu alone, and a number such as rms_norm_eps: NaN passes every check of types and spoils "
        "every state."
    )
    fix = "Write the value the drafter was trained with, or leave the field out."
    references = ("https://github.com/NVIDIA/Model-Optimizer/pull/1417",)
    requires = ("SRC002",)

    @staticmethod
    def check(draft: DraftConfig, contract: Contract, serving: Server | None = None) -> Outcome:
        """Report nulls, whole numbers in place of decimals, senseless ones, another activation."""
        problems = (*_untyped(draft.raw, contract), *_senseless(draft, contract, serving))
        if draft.hidden_act not in (None, _ACTIVATION):
            problems = (
                *problems,
                Problem(
                    message=(
                        f"hidden_act is {shown(draft.hidden_act or '')}; SGLang's drafters take "
                        f"{_ACTIVATION} and stop at any other"
                    ),
                    evidence={"hidden_act": draft.hidden_act},
                    fix="Train with silu; SGLang serves no drafter with another activation.",
                ),
            )
        return problems or Passed(message="no null and no other type")


def _senseless(draft: DraftConfig, contract: Contract, serving: Server | None) -> Iterator[Problem]:
    """Report numbers that are of their type, and that nothing can be calculated with."""
    eps = draft.raw.get("rms_norm_eps")
    if type(eps) is float and not 0 <= eps < inf:
        effect = "every norm gives zeros" if eps == inf else "norms give NaN"
        yield Problem(
            message=f"rms_norm_eps is {eps:g}; it must be a small positive number: {effect}",
            evidence={"rms_norm_eps": str(eps)},
            fix="Write the one the drafter was trained with (1e-5 or 1e-6 in most).",
        )
    positions = draft.max_position_embeddings
    if positions is not None and positions < 1:
        longer = context_override(serving)
        effect = "SGLang does not start: every context it serves is longer"
        if contract.context_beyond_draft == "warned":
            longer, effect = None, "SGLang builds RoPE for no position at all, and stops"
        elif longer:
            effect = f"{longer} makes SGLang overwrite it with the target's"
        yield Problem(
            message=f"max_position_embeddings is {positions}; {effect}",
            evidence={"max_position_embeddings": positions},
            fix="Write the number of positions that the drafter was trained with.",
            severity=Severity.WARNING if longer else Severity.ERROR,
        )


def _untyped(config: Mapping[str, Any], contract: Contract) -> Iterator[Problem]:
    strict = strict_types(contract)
    for key, kind in _NEVER_NULL.items():
        if key not in config:
            continue
        value = config[key]
        wrong = value is None or (key in _FLOATS and type(value) is not float)
        harmful = strict or (key in _ALWAYS_NEEDED and value is None)
        if wrong:
            effect = (
                f"{transformers(contract)} refuses the config"
                if strict
                else "SGLang stops where it calculates with it"
            )
            yield Problem(
                message=(
                    f"{key} is {'null' if value is None else shown(repr(value), 40)}; it must be "
                    f"{_WORDS[kind]}: "
                    + (effect if harmful else "later versions of transformers refuse the config")
                ),
                evidence={"field": key},
                severity=Severity.ERROR if harmful else Severity.WARNING,
            )


class CFG008(Rule):
    """The head size is the one that the shapes of q, k, v and o come from."""

    title = "head_dim fits the attention's weights"
    why = (
        "Where head_dim is not stated, hidden_size / num_attention_heads is taken for it, which "
        "for many models (Qwen3-4B: 2560 / 32 = 80 instead of 128) is not what the weights were "
        "made with."
    )
    fix = "State head_dim as rows of q_proj / num_attention_heads."
    references = (
        "https://github.com/SafeAILab/EAGLE/issues/223",
        "https://github.com/Tencent/AngelSlim/issues/5",
    )
    requires = ("SRC001", "SRC002", "CFG001")

    @staticmethod
    def check(
        manifest: Manifest,
        draft: DraftConfig,
        contract: Contract,
        target: TargetConfig | None = None,
    ) -> Outcome:
        """Compare head_dim with the shapes; warn of a size few kernels are made for."""
        if served_class(draft, contract) == MLA:
            return Skip("an MLA drafter has no head_dim of its own")
        try:
            dims = dims_of(draft, contract)
        except ContractError as error:
            return Skip(f"the sizes are not known: {error}")
        problems = (*_indivisible(draft, dims, contract), *_head_dim(manifest, draft, dims))
        if problems:
            return problems
        return tuple(_unusual(dims, target)) or Passed(
            message=f"head_dim {dims.head_dim}, {dims.heads} heads, {dims.kv_heads} of keys"
        )


def _indivisible(draft: DraftConfig, dims: Dims, contract: Contract) -> Iterator[Problem]:
    if dims.hidden % dims.heads and draft.model_type == "llama" and strict_types(contract):
        yield Problem(
            message=(
                f"hidden_size {dims.hidden} is no multiple of num_attention_heads {dims.heads}; "
                f"{transformers(contract)} refuses such a llama config, whatever head_dim says"
            ),
            evidence={"hidden_size": dims.hidden, "heads": dims.heads},
            fix='Write "model_type": "qwen3" and head_dim; that config class has no such rule.',
        )


def _head_dim(manifest: Manifest, draft: DraftConfig, dims: Dims) -> Iterator[Problem]:
    """Work head_dim out from the file: queries / heads, which o must have as columns too."""
    sizes: dict[str, int] = {}
    for name, info in manifest.tensors.items():
        if len(info.shape) != 2:  # noqa: PLR2004 - a matrix
            continue
        for part, axis in ((".q_proj.weight", 0), (".o_proj.weight", 1)):
            if name.endswith(part) and info.shape[axis] % dims.heads == 0:
                sizes.setdefault(part, info.shape[axis] // dims.heads)
    found = set(sizes.values())
    if len(sizes) > 1 and len(found) == 1 and found != {dims.head_dim}:
        size = found.pop()
        origin = "head_dim in config.json is"
        if draft.head_dim is None:
            origin = f"head_dim is not stated, and hidden_size {dims.hidden} // heads is"
        yield Problem(
            message=(
                f"q_proj and o_proj are made for {dims.heads} heads of {size}; {origin} "
                f"{dims.head_dim}"
            ),
            evidence={"held": size, "built": dims.head_dim},
            fix=f"Write head_dim: {size}.",
        )


def _unusual(dims: Dims, target: TargetConfig | None) -> Iterator[Problem]:
    if target is None or dims.head_dim in _HEAD_DIMS:
        return
    heads, width = target.num_attention_heads, target.hidden_size
    theirs = target.head_dim or (width // heads if heads and width else None)
    if theirs and theirs != dims.head_dim:
        yield Problem(
            message=(
                f"head_dim is {dims.head_dim}, the target's {theirs}; attention kernels are made "
                f"for {ids(_HEAD_DIMS)}, and the backend that serves the target may not take it"
            ),
            evidence={"drafter": dims.head_dim, "target": theirs},
            fix="Train the drafter with the target's head_dim, or try the server's start first.",
            severity=Severity.WARNING,
        )


RULES: tuple[type[Rule], ...] = (CFG005, CFG006, CFG007, CFG008)
