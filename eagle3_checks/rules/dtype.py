"""CFG012 and CFG013: in which type of number the drafter is served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from eagle3_checks.checkpoint.files import shown
from eagle3_checks.facts import DraftConfig, Manifest, TargetConfig
from eagle3_checks.profile import Server
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.serving import flag
from eagle3_checks.rules.text import counted
from eagle3_checks.verdict import Severity

MODEL_CONFIG = (
    "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/configs/model_config.py"
)
MATRIX = 2
"""Dimensions of a weight; norms and biases have one."""
_NAMES = {"half": "float16", "float": "float32"}
_SERVED = frozenset({"float16", "bfloat16"})
_HEADERS: Mapping[str, str] = {
    "BF16": "bfloat16",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
}


def served_dtype(stated: str | None, model_type: str | None) -> str:
    """Return the type SGLang serves a model in under ``--dtype auto``.

    float32, and what is not stated, becomes float16, in Gemma bfloat16.
    Source: ``_get_and_verify_dtype`` in sglang/srt/configs/model_config.py.
    """
    name = _NAMES.get(stated or "", stated)
    if name in _SERVED:
        return str(name)
    return "bfloat16" if (model_type or "").startswith("gemma") else "float16"


def _stated(dtype: str | None, missing: str = "none") -> str:
    """Return a type as config.json states it, safe to print."""
    return shown(dtype, 40) if dtype else missing


class CFG012(Rule):
    """Drafter and target are served in one type of number."""

    title = "Drafter and target are served in one dtype"
    why = (
        "Under --dtype auto SGLang serves each in the type its own config states, and in float16 "
        "where none or float32 is stated. The target's hidden states enter the drafter's fc as "
        "they are: two types there stop the server at its first batch or graph capture."
    )
    fix = (
        "State the target's type as torch_dtype in the drafter's config.json (its weights are cast "
        "while they load), or serve both with one --dtype."
    )
    references = (
        MODEL_CONFIG,
        "https://github.com/sgl-project/SpecForge/issues/348",
        "https://github.com/sgl-project/sglang/pull/3431",
    )
    requires = ("SRC002", "SRC003")

    @staticmethod
    def check(draft: DraftConfig, target: TargetConfig, serving: Server | None = None) -> Outcome:
        """Compare the types as SGLang derives them; a flag for both settles it."""
        if not target.raw:
            return Skip("the target's config.json cannot be read")
        chosen = flag(serving, "--dtype")
        if serving is not None and serving.device == "cpu":
            return Passed(message="both are served in float32 on the CPU")
        if chosen not in (None, "", "auto"):
            return Passed(message=f"both are served in {chosen} (--dtype)")
        mine = served_dtype(draft.dtype, draft.model_type)
        theirs = served_dtype(target.dtype, target.model_type)
        if mine == theirs:
            return Passed(message=mine)
        certain = serving is not None and serving.device == "cuda"
        return (
            Problem(
                message=(
                    f"torch_dtype: the drafter's config states {_stated(draft.dtype)}, so SGLang "
                    f"serves it in {mine}; the target states {_stated(target.dtype)} and is "
                    f"served in {theirs}; without a --dtype for both the server stops"
                ),
                evidence={"drafter": mine, "target": theirs},
                severity=Severity.ERROR if certain else Severity.WARNING,
            ),
        )


class CFG013(Rule):
    """The weights are stored in the type that config.json states."""

    title = "The file's dtype is the one config.json states"
    severity = Severity.WARNING
    why = (
        "SGLang casts every tensor to the type the config states. float32 loses digits, and "
        "bfloat16 cast to float16 loses what is beyond 65504. Several types among the weights say "
        "that a part was exported otherwise than the rest."
    )
    fix = "Export all weights in one type, and state it as torch_dtype in config.json."
    references = (MODEL_CONFIG,)
    requires = ("SRC001", "SRC002")

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig) -> Outcome:
        """Count the types of the matrices and compare them with the config's."""
        census = Counter(
            t.dtype for t in manifest.tensors.values() if len(t.shape) >= MATRIX and _weight(t.name)
        )
        seen = {name: count for name, count in census.items() if name in _HEADERS}
        if not seen:
            return Skip("no weight is stored in a plain floating-point type")
        told = ", ".join(f"{count} {name}" for name, count in sorted(seen.items()))
        stated = draft.dtype or ""
        if len(seen) > 1:
            return (Problem(message=f"the matrices have several types: {told}", evidence=seen),)
        stored = _HEADERS[next(iter(seen))]
        if stored == _NAMES.get(stated, stated):
            return Passed(message=f"{counted(census.total(), 'weight')} in {stored}")
        target = served_dtype(draft.dtype, draft.model_type)
        if not stated and stored == target:
            return Passed(message=f"{stored}; config.json states none")
        return (
            Problem(
                message=(
                    f"torch_dtype is {_stated(stated, 'missing')}, so SGLang serves the drafter in "
                    f"{target}; its matrices are stored in {stored}"
                ),
                evidence={"stated": stated or None, "stored": stored},
            ),
        )


def _weight(name: str) -> bool:
    return "d2t" not in name and "t2d" not in name and "scale" not in name


RULES: tuple[type[Rule], ...] = (CFG012, CFG013)
