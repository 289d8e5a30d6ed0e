"""CFG016 to CFG019: norm flags, against their tensors and against what SGLang does with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eagle3_checks.contract.dims import Dims, dims_of, served_class
from eagle3_checks.contract.names import llama_place
from eagle3_checks.contract.version import (
    LLAMA,
    MLA,
    Contract,
    ContractError,
    contract_for,
    known_versions,
)
from eagle3_checks.facts import DraftConfig, Manifest
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule
from eagle3_checks.rules.text import counted, listed
from eagle3_checks.verdict import Severity

EAGLE31 = "https://github.com/sgl-project/sglang/pull/24663"
MISREAD = "https://github.com/sgl-project/SpecForge/pull/879"


class CFG016(Rule):
    """A norm flag that is on is known to this version, and its tensors are there."""

    title = "Norm flags have their tensors, and a version that knows them"
    why = (
        "fc_norm and norm_before_fc norm the aux states before fc (EAGLE-3.1). A version without "
        "them feeds fc unnormed states, and a flag without its tensors norms by ones: either way "
        "the drafter is not served as it was trained, and nothing is said."
    )
    fix = "Serve with a version that knows the flag, or export the tensors that belong to it."
    references = (EAGLE31, "https://github.com/vllm-project/vllm/pull/38111")
    requires = ("SRC001", "SRC002", "SRC004", "CFG001")

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Report flags without support and flags without tensors."""
        flags = [f for f in ("fc_norm", "norm_before_fc") if getattr(draft, f)]
        misplaced = tuple(_misplaced(draft.raw, "fc_norm"))
        if not flags:
            return misplaced or Passed(message="no norm before fc")
        problems: list[Problem] = [*misplaced]
        for flag in flags:
            unknown = _unknown(flag, draft, contract)
            problems.extend([unknown] if unknown else _absent(flag, manifest, draft, contract))
        return problems or Passed(message=f"{listed(flags)}: every tensor is there")


def _unknown(flag: str, draft: DraftConfig, contract: Contract) -> Problem | None:
    """Say from which version on a flag is read, where this one does not read it."""
    served = served_class(draft, contract)
    if _reads(contract, served, flag):
        return None
    first = next((v for v in known_versions() if _reads(contract_for(v), served, flag)), None)
    since = f"it is read from {first} on" if first else f"{served} has it in no version"
    return Problem(
        message=f"{flag} is true; SGLang {contract.name} ignores it: {since}",
        evidence={"flag": flag, "since": first},
        fix=(
            f"Serve with SGLang {first} or later."
            if first
            else f"Train without {flag} for this class; no SGLang version serves it."
        ),
    )


def _reads(contract: Contract, drafter_class: str | None, flag: str) -> bool:
    loader = contract.mla if drafter_class == MLA else contract.llama
    return bool(getattr(loader, flag, False))


def _absent(
    flag: str, manifest: Manifest, draft: DraftConfig, contract: Contract
) -> Iterator[Problem]:
    try:
        wanted = _tensors(flag, dims_of(draft, contract))
    except ContractError:
        return
    read = {_parameter(name, wanted, contract) for name in manifest.tensors}
    missing = [name for name in wanted if name not in read]
    if missing:
        names = [name.removeprefix("model.") for name in missing]
        yield Problem(
            message=(
                f"{flag} is true, but {listed(names)} {'is' if len(names) == 1 else 'are'} "
                "missing: SGLang norms the aux states by ones"
            ),
            evidence={"flag": flag, "missing": names},
            fix=f"Export {listed(names)}, or write {flag}: false if the drafter has no such norm.",
        )


def _tensors(flag: str, dims: Dims) -> list[str]:
    if flag == "norm_before_fc":
        return ["model.input_norm.weight"]
    return [f"model.fc_norm.{state}.weight" for state in range(dims.aux)]


def _parameter(name: str, wanted: list[str], contract: Contract) -> str | None:
    return llama_place(name, wanted, contract.llama.renames).parameter


def _misplaced(config: Mapping[str, Any], flag: str) -> Iterator[Problem]:
    """Report a flag that stands in eagle_config alone, where SGLang does not look for it."""
    eagle = config.get("eagle_config")
    inner = eagle.get(flag) if isinstance(eagle, Mapping) else None
    if inner is True and not config.get(flag):
        yield Problem(
            message=f"eagle_config.{flag} is true; SGLang reads {flag} at the top level alone",
            evidence={"flag": flag},
            fix=f"Move {flag} from eagle_config to the top level of config.json.",
        )


class CFG017(Rule):
    """norm_output means to SGLang what it meant to the trainer."""

    title = "norm_output is known, and means what it meant in training"
    why = (
        "SGLang: norm_output says whether the state that is fed to the next drafting step is "
        "normed; the head always sees a normed state. SpecForge, up to a fix of September 2026, "
        "norms for the head alone by the same flag and never for the next step: a drafter trained "
        "so is served otherwise than it was trained from its second step on, in silence."
    )
    fix = (
        "Look into the trainer: where it fed the unnormed state to the next step and normed for "
        "the head, write norm_output: false for SGLang."
    )
    references = (EAGLE31, MISREAD)
    requires = ("SRC001", "SRC002", "CFG001")

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Error for a version that ignores it; a warning where the trainer meant something else."""
        misplaced = tuple(_misplaced(draft.raw, "norm_output"))
        if draft.norm_output is None:
            return misplaced or Passed(message="not stated: the unnormed state is fed on")
        unknown = _unknown("norm_output", draft, contract) if draft.norm_output else None
        if unknown:
            return (unknown,)
        if _by_specforge(manifest, draft):
            fed = "normed" if draft.norm_output else "unnormed"
            trained = (
                "its trainer fed it unnormed"
                if draft.norm_output
                else "its trainer gave the head an unnormed state too"
            )
            return (
                Problem(
                    message=(
                        f"norm_output is {str(draft.norm_output).lower()}, and the file looks like "
                        f"SpecForge's: SGLang feeds the next step the {fed} state, but before "
                        f"SpecForge PR 879 {trained}"
                    ),
                    evidence={"norm_output": draft.norm_output},
                    severity=Severity.WARNING,
                ),
            )
        return Passed(message=f"norm_output is {str(draft.norm_output).lower()}")


def _by_specforge(manifest: Manifest, draft: DraftConfig) -> bool:
    """Whether the file has SpecForge's layout: midlayer, and both vocabulary maps."""
    names = manifest.tensors
    other = any("speculators" in k or "torchspec" in k for k in (*draft.raw, *manifest.metadata))
    return (
        not other
        and LLAMA in draft.architectures
        and {"d2t", "t2d"} <= set(names)
        and any(name.startswith("midlayer.") for name in names)
    )


class CFG018(Rule):
    """The residual is taken before the norm, which is all that SGLang does."""

    title = "norm_before_residual is not asked for"
    why = (
        "With norm_before_residual the trainer takes the normed fc output as the residual. SGLang "
        "takes the one before the norm in every version, and never reads the flag: the whole layer "
        "works on another stream than it was trained on."
    )
    fix = (
        "Train with norm_before_residual: false for SGLang; no change of config makes this drafter "
        "right."
    )
    references = ("https://github.com/vllm-project/vllm/pull/25961",)
    requires = ("SRC002",)

    @staticmethod
    def check(draft: DraftConfig) -> Outcome:
        """Report the flag, wherever it stands."""
        eagle = draft.raw.get("eagle_config")
        nested = isinstance(eagle, Mapping) and eagle.get("norm_before_residual") is True
        layer = draft.nested_layer or {}
        unsaid = not any("norm_before_residual" in table for table in (draft.raw, layer))
        if unsaid and {"speculators_config", "speculators_model_type"} & set(draft.raw):
            return (_unsaid(),)
        if not draft.norm_before_residual and not nested:
            return Passed(message="the residual is the unnormed state")
        return (
            Problem(
                message=(
                    "norm_before_residual is true; SGLang ignores it and takes the state before "
                    "hidden_norm as the residual"
                ),
                evidence={"norm_before_residual": True},
            ),
        )


def _unsaid() -> Problem:
    return Problem(
        message=(
            "norm_before_residual is not stated in a config of speculators, whose default has been "
            "true in one place and false in another; SGLang serves false"
        ),
        fix="Look up what it was trained with, and write norm_before_residual into config.json.",
        severity=Severity.WARNING,
    )


_IGNORED: tuple[tuple[str, Any, str], ...] = (
    ("use_last_layernorm", False, "SGLang norms the last state with norm.weight all the same"),
    ("use_input_layernorm_in_first_layer", False, "SGLang norms the embedding all the same"),
    ("use_mtp_layernorm", True, "SGLang builds no such norm"),
)


class CFG019(Rule):
    """No setting that SGLang ignores says that the drafter was trained otherwise."""

    title = "No setting asks for what SGLang does not do"
    severity = Severity.WARNING
    why = (
        "Trainers write settings that SGLang never reads. Where one of them differs from what "
        "SGLang does anyway, the drafter may be served otherwise than it was trained."
    )
    fix = "Ask the trainer's documentation what the setting changes, and train for SGLang."
    references = ("https://github.com/vllm-project/speculators/pull/684",)
    requires = ("SRC002",)

    @staticmethod
    def check(draft: DraftConfig) -> Outcome:
        """Report settings whose value differs from what SGLang does."""
        eagle = draft.raw.get("eagle_config")
        found = [*_eagle_settings(eagle if isinstance(eagle, Mapping) else {}), *_window(draft.raw)]
        problems = tuple(
            Problem(message=f"{key} is {value}; {effect}", evidence={"key": key}, fix=fix)
            for key, value, effect, fix in found
        )
        return problems or Passed(message=f"{counted(len(draft.raw), 'setting')}, none against it")


def _eagle_settings(eagle: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    for key, value, effect in _IGNORED:
        if eagle.get(key) is value:
            yield f"eagle_config.{key}", str(value).lower(), effect, ""
    steps = eagle.get("parallel_draft_step")
    if type(steps) is int and steps > 1:
        effect = "SGLang drafts one token at a time with the first head"
        yield "eagle_config.parallel_draft_step", str(steps), effect, ""


def _window(config: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    types = config.get("layer_types")
    sliding = isinstance(types, list) and "sliding_attention" in types
    window = config.get("sliding_window")
    if type(window) is int and (sliding or config.get("use_sliding_window") is True):
        effect = "SGLang gives the drafter full attention"
        fix = f"Serve with --speculative-draft-window-size {window}."
        yield "sliding_window", str(window), effect, fix


RULES: tuple[type[Rule], ...] = (CFG016, CFG017, CFG018, CFG019)
