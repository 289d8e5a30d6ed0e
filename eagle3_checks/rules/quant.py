"""CFG014 and CFG015: quantised drafters, and plain ones beside a quantised target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eagle3_checks.checkpoint.files import shown
from eagle3_checks.contract.dims import served_class
from eagle3_checks.contract.version import MLA, Contract
from eagle3_checks.facts import DraftConfig, Manifest, TensorInfo
from eagle3_checks.profile import Server
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.plan import quantised
from eagle3_checks.rules.serving import flag
from eagle3_checks.rules.text import counted, listed
from eagle3_checks.verdict import Severity

INHERITED = "https://github.com/sgl-project/sglang/pull/28196"
_PACKED = frozenset({"I8", "U8", "I32", "F4", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"})
_ENDINGS = (".weight", ".qweight", ".weight_packed")
_SCALES = ("scale", "absmax", "qzeros")
_NEEDS_A_FILE = frozenset({"awq", "awq_marlin", "gptq", "gptq_marlin", "moe_wna16"})
"""Methods that SGLang only runs with a config of their own beside the weights."""


class CFG014(Rule):
    """Quantised weights come with their scales, and config.json says how they were quantised."""

    title = "Quantised weights have their scales"
    why = (
        "A quantised weight is a small number times a scale. Without a quantization_config SGLang "
        "copies the small numbers into a plain weight; without the scale it multiplies by whatever "
        "memory holds. Both pass in silence."
    )
    fix = "Export the drafter again, unquantised or whole: weights, scales, quantization_config."
    references = ("https://github.com/vllm-project/vllm/pull/28435",)
    requires = ("SRC001", "SRC002")

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Report packed weights that are not announced, or lack a scale."""
        unnamed = _unnamed(draft, contract)
        if unnamed:
            return (unnamed,)
        packed = [t for t in manifest.tensors.values() if _packed(t)]
        method = quantised(draft)
        if not packed:
            if method:
                return (_announced(method),)
            return Passed(message="no weight is quantised")
        names = [t.name for t in packed]
        kinds = listed(sorted({t.dtype for t in packed}))
        if not method:
            return (
                Problem(
                    message=(
                        f"{counted(len(packed), 'weight')} stored as {kinds}, as {names[0]}, but "
                        "config.json has no quantization_config: SGLang takes the stored numbers "
                        "for the weights"
                    ),
                    evidence={"tensors": names},
                ),
            )
        return tuple(_faults(manifest, draft, contract, packed)) or Passed(
            message=f"{counted(len(packed), 'weight')} stored as {kinds}, each with a scale"
        )


def _unnamed(draft: DraftConfig, contract: Contract) -> Problem | None:
    """Tell a quantization_config that names no method, at which SGLang stops."""
    stated = draft.raw.get("quantization_config")
    if not isinstance(stated, Mapping):
        return None
    inner = stated.get("quantization")
    algorithm = (inner if isinstance(inner, Mapping) else stated).get("quant_algo", "")
    fix = "Remove quantization_config from config.json where the weights are not quantised."
    if "quant_algo" in stated and algorithm is None:
        return Problem(
            message="quantization_config.quant_algo is null, as for a drafter that was left as it "
            "was; SGLang 0.5.23 stops at it when it reads the config",
            fix=fix,
            severity=Severity.WARNING,
        )
    if stated.get("quant_method", algorithm):
        return None
    return Problem(
        message=f"quantization_config names no quant_method; SGLang {contract.name} stops when it "
        "reads the config",
        evidence={"quantization_config": sorted(map(shown, stated))[:8]},
        fix=fix,
    )


def _announced(method: str) -> Problem:
    return Problem(
        message=f"config.json says that the drafter is quantised ({method}), but no weight is",
        fix="Remove quantization_config from config.json, or export the quantised weights.",
        severity=Severity.WARNING,
    )


def _faults(
    manifest: Manifest, draft: DraftConfig, contract: Contract, packed: list[TensorInfo]
) -> Iterator[Problem]:
    scales = {name.rpartition(".")[0] for name in manifest.tensors if _is_scale(name)}
    lacking = [t.name for t in packed if _module(t.name) not in scales]
    if lacking:
        yield Problem(
            message=(
                f"{counted(len(lacking), 'quantised weight')} without a scale: {listed(lacking)}"
            ),
            evidence={"tensors": lacking},
        )
    absorbed = [t.name for t in packed if ".kv_b_proj." in t.name]
    if absorbed and served_class(draft, contract) == MLA:
        yield Problem(
            message=(
                f"{listed(absorbed)} is quantised; {MLA} splits it after loading and stops for "
                "any type but float"
            ),
            evidence={"tensors": absorbed},
            fix="Leave kv_b_proj out of the quantisation.",
        )


def _packed(tensor: TensorInfo) -> bool:
    return tensor.dtype in _PACKED and tensor.name.endswith(_ENDINGS) and not _is_scale(tensor.name)


def _is_scale(name: str) -> bool:
    return any(word in name.rpartition(".")[2] for word in _SCALES)


def _module(name: str) -> str:
    return name.rpartition(".")[0]


class CFG015(Rule):
    """A plain drafter does not inherit the target's quantisation."""

    title = "The drafter does not inherit --quantization"
    why = (
        "SGLang gives the drafter the target's --quantization where "
        "--speculative-draft-model-quantization is not set. A method that reads a file of its own "
        "stops at a plain drafter; the others quantise its weights while they load."
    )
    fix = "Add --speculative-draft-model-quantization unquant to the server's flags."
    references = (INHERITED, "https://github.com/vllm-project/vllm/pull/26590")
    requires = ("SRC002",)

    @staticmethod
    def check(draft: DraftConfig, serving: Server | None = None) -> Outcome:
        """Judge the profile's flags; without one nothing is known."""
        if serving is None:
            return Skip("needs the server flags of a profile")
        method, own = flag(serving, "--quantization"), quantised(draft)
        chosen = flag(serving, "--speculative-draft-model-quantization")
        if not method or method == "unquant" or chosen or own:
            return Passed(message=f"the drafter's own: {chosen or own or 'none'}")
        stops = method in _NEEDS_A_FILE
        effect = (
            "finds no config file for it beside the drafter and stops"
            if stops
            else "quantises the drafter's plain weights while it loads them"
        )
        return (
            Problem(
                message=f"--quantization {method} is given and holds for the drafter too: SGLang "
                f"{effect}",
                evidence={"quantization": method},
                severity=Severity.ERROR if stops else Severity.WARNING,
            ),
        )


RULES: tuple[type[Rule], ...] = (CFG014, CFG015)
