"""CFG009 to CFG011: which rotary position embedding the drafter is served with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isinf, isnan
from typing import Any

from eagle3_checks.checkpoint.config import language_config
from eagle3_checks.checkpoint.files import shown
from eagle3_checks.contract.version import Contract
from eagle3_checks.facts import DraftConfig, TargetConfig
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.pins import one_rope_dict, transformers
from eagle3_checks.rules.rope_values import (
    Rope,
    by_layer,
    effective,
    plain,
    stated_kinds,
    stated_thetas,
    table,
)
from eagle3_checks.rules.text import listed
from eagle3_checks.verdict import Severity

FACTORY = (
    "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/layers/"
    "rotary_embedding/factory.py"
)
BOTH = "https://github.com/sgl-project/SpecForge/pull/742"
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor",),
    "deepseek_yarn": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "longrope": ("short_factor", "long_factor"),
    "proportional": (),
}
"""Types that SGLang builds, and what transformers refuses to be without."""


class CFG009(Rule):
    """The RoPE that the config states is the one that this SGLang version reads."""

    title = "RoPE is stated where this SGLang version reads it"
    why = (
        "RoPE is written in two ways: rope_theta with rope_scaling, or rope_parameters. A SGLang "
        "version reads one of them and takes its default for the rest, theta 10000 and no "
        "scaling, without a word: acceptance falls a little at first, and collapses past the "
        "original context."
    )
    fix = (
        "State both alike: rope_theta and rope_scaling, and the same in rope_parameters, with "
        "rope_theta in it."
    )
    references = (BOTH, "https://github.com/sgl-project/SpecForge/pull/702")
    requires = ("SRC002",)

    @staticmethod
    def check(draft: DraftConfig, contract: Contract) -> Outcome:
        """Compare every statement with what is read: error where none of them is."""
        built = effective(draft.raw, contract)
        problems = (*_theta(draft.raw, built, contract), *_scaling(draft.raw, built, contract))
        return problems or Passed(message=built.summary())


def _theta(config: Mapping[str, Any], built: Rope, contract: Contract) -> Iterator[Problem]:
    stated = tuple(stated_thetas(config))
    others = [(place, value) for place, value in stated if value != built.theta]
    if others:
        yield _unread(
            f"{_said(others)}; SGLang {contract.name} ({transformers(contract)}) builds theta "
            f"{plain(built.theta)}",
            honoured=len(others) < len(stated),
            evidence={"stated": dict(stated), "theta": built.theta},
        )


def _scaling(config: Mapping[str, Any], built: Rope, contract: Contract) -> Iterator[Problem]:
    stated = tuple(stated_kinds(config))
    others = [(place, rope) for place, rope in stated if not _scales_alike(rope, built)]
    if others:
        said = _said([(f"{place} scaling", _scale(rope)) for place, rope in others])
        yield _unread(
            f"{said}; SGLang {contract.name} ({transformers(contract)}) builds {_scale(built)}",
            honoured=len(others) < len(stated),
            evidence={"stated": {p: r.kind for p, r in stated}, "kind": built.kind},
        )


def _scales_alike(one: Rope, two: Rope) -> bool:
    factor = "factor"
    return one.kind == two.kind and one.values.get(factor) == two.values.get(factor)


def _scale(rope: Rope) -> str:
    factor = rope.values.get("factor")
    return f"{rope.kind}" + (f" factor {plain(factor)}" if factor is not None else "")


def _said(statements: list[tuple[str, Any]]) -> str:
    return " and ".join(f"{place} is {plain(value)}" for place, value in statements)


def _unread(message: str, *, honoured: bool, evidence: Mapping[str, Any]) -> Problem:
    return Problem(
        message=message,
        evidence=evidence,
        severity=Severity.WARNING if honoured else Severity.ERROR,
    )


class CFG010(Rule):
    """SGLang can build the RoPE that it reads."""

    title = "The RoPE is of a type that SGLang builds"
    why = "A type that SGLang does not know, or one without its factors, stops the server."
    fix = "Write a type that SGLang builds, with its factors, in the drafter's config.json."
    references = (FACTORY, "https://github.com/sgl-project/sglang/pull/8801")
    requires = ("SRC002",)

    @staticmethod
    def check(draft: DraftConfig, contract: Contract) -> Outcome:
        """Report unknown types, missing factors and a base that is no number."""
        built = effective(draft.raw, contract)
        if "mrope_section" in built.values:
            return Passed(message="mrope_section is given; SGLang takes its type for default")
        problems = tuple(_unbuildable(draft, built, contract))
        return problems or Passed(message=f"{built.kind}, theta {plain(built.theta)}")


def _unbuildable(draft: DraftConfig, built: Rope, contract: Contract) -> Iterator[Problem]:
    number = isinstance(built.theta, int | float) and not isinstance(built.theta, bool)
    if not number:
        yield Problem(
            message=f"rope_theta is {_null(built.theta)}; SGLang raises it to a power and stops",
            fix="Write the number the drafter was trained with (10000 is the default).",
        )
    elif (effect := _spoils(built.theta)) is not None:
        yield Problem(
            message=f"rope_theta is {plain(built.theta)}; {effect}",
            evidence={"rope_theta": str(built.theta)[:40]},
            fix="Write the number the drafter was trained with (10000 is the default).",
        )
    untyped = "rope_type" not in built.values and "type" not in built.values
    old = not one_rope_dict(contract)
    if old and untyped and isinstance(draft.raw.get("rope_scaling"), Mapping):
        yield Problem(
            message=f"rope_scaling has no rope_type; {transformers(contract)} refuses it",
            fix="Write rope_type into rope_scaling, or leave rope_scaling out.",
        )
        return
    if untyped:
        yield from _untyped(draft.raw, contract)
    if built.kind not in _NEEDS:
        yield Problem(
            message=(
                f"the RoPE type is {built.kind}; SGLang {contract.name} builds "
                f"{listed(list(_NEEDS), len(_NEEDS))}"
            ),
            evidence={"kind": built.kind},
        )
        return
    missing = [key for key in _NEEDS[built.kind] if key not in built.values]
    if missing:
        yield Problem(
            message=(
                f"the RoPE type {built.kind} lacks {listed(missing)}; {transformers(contract)} "
                "refuses the config"
            ),
            evidence={"kind": built.kind, "missing": missing},
        )


def _spoils(theta: float) -> str | None:
    """Say what a base leads to that is no positive number; None where it is one."""
    try:
        base = float(theta)
    except OverflowError:
        return "torch takes no number as large, and SGLang stops"
    if isnan(base) or base <= 0:
        return "its powers are NaN or infinite, and so is every query and key"
    if isinf(base):
        return "its powers are infinite: queries and keys hardly depend on their positions"
    return None


def _untyped(config: Mapping[str, Any], contract: Contract) -> Iterator[Problem]:
    """Tell a scaling without its type, which scales nothing."""
    for key in ("rope_scaling", "rope_parameters"):
        stated = [name for name in table(config, key) if name != "rope_theta"]
        if stated:
            yield Problem(
                message=(
                    f"{key} states {listed(stated)} and no rope_type; SGLang {contract.name} takes "
                    "that for default, which scales nothing"
                ),
                evidence={"field": key, "stated": [shown(name, 40) for name in stated[:8]]},
                fix=f"Write rope_type into {key} as it was in training, or leave {key} out.",
                severity=Severity.WARNING,
            )


def _null(value: Any) -> str:
    return "null" if value is None else shown(repr(value), 40)


class CFG011(Rule):
    """The drafter's RoPE is the target's."""

    title = "Drafter and target have one RoPE"
    severity = Severity.WARNING
    why = (
        "Many good drafters have another RoPE than their target, some by design: a warning, for "
        "the case that the drafter was trained with the target's and its config lost it. Public "
        "drafters have even been better served at 10000 than at what their config states, since "
        "their trainer never read it."
    )
    fix = "Compare with the RoPE the trainer really used; state that one."
    references = (
        "https://github.com/sgl-project/SpecForge/pull/270",
        "https://github.com/wejoncy/sfllm/pull/32",
    )
    requires = ("SRC002", "SRC003", "CFG005")

    @staticmethod
    def check(draft: DraftConfig, target: TargetConfig, contract: Contract) -> Outcome:
        """Compare theta, type and factor as this version reads them."""
        theirs = language_config(target.raw)
        if by_layer(theirs):
            return Skip("the target has a RoPE for each type of layer")
        told = any(table(theirs, key) for key in ("rope_scaling", "rope_parameters"))
        if not told and theirs.get("rope_theta") is None:
            return Skip("the target's config.json states no RoPE")
        mine, wanted = effective(draft.raw, contract), effective(theirs, contract)
        if mine.same(wanted):
            return Passed(message=mine.summary())
        return (
            Problem(
                message=f"the drafter's RoPE is {mine.summary()}, the target's {wanted.summary()}",
                evidence={"drafter": mine.summary(), "target": wanted.summary()},
            ),
        )


RULES: tuple[type[Rule], ...] = (CFG009, CFG010, CFG011)
