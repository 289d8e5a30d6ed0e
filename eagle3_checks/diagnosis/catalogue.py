"""The causes by name: what each is called, and what to try next.

In a command `{drafter}` and `{target}` stand for the checkpoints, `{gate}` for the command that
repeats the run, `{replay}` for the same with a replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eagle3_checks.verdict import Step

INSPECT = "eagle3-checks inspect {drafter} --target {target} --values"
REPLAY = "{replay}"
REPACKAGE = "eagle3-checks repackage {drafter} OUT --target {target}"


@dataclass(frozen=True, kw_only=True)
class Known:
    """A cause that has a name."""

    title: str
    """As the beginning of a sentence."""
    steps: tuple[Step, ...] = ()


def _known(title: str, what: str, command: str = "") -> Known:
    return Known(title=title, steps=(Step(what=what, command=command),))


CAUSES: Mapping[str, Known] = {
    "files": _known("files cannot be read", "Mend or download the files again.", INSPECT),
    "config": _known("config.json is not what SGLang builds from", "Correct the config.", INSPECT),
    "tensors": _known(
        "tensors are dropped or parameters left unset",
        "Rename or export the tensors; a repackaging does what is mechanical.",
        REPACKAGE,
    ),
    "fusion": _known(
        "the aux states are not fused", "Let the target hand over what fc takes.", INSPECT
    ),
    "aux-layers": _known(
        "other aux states are captured than the drafter was trained on",
        "State the training's layers in eagle_config, in SGLang's counting.",
        REPACKAGE,
    ),
    "aux-order": _known(
        "the aux states are joined in another order than in training",
        "Put the column blocks of fc, or the stated ids, in the order of the training.",
    ),
    "aux-unused": _known(
        "fc makes nothing of an aux state",
        "Compare fc's column blocks with the training's; export fc again, or train it.",
        INSPECT,
    ),
    "residual": _known(
        "the captured states lack the residual",
        "Serve with another SGLang version, and compare.",
        "eagle3-checks bisect sglang",
    ),
    "partial-sums": _known(
        "the captured states are parts of a sum over ranks",
        "Serve with --tp-size 1, or without the fused all-reduce, and compare.",
        "{gate}",
    ),
    "ranks": _known(
        "the ranks do not do the same", "Serve with --tp-size 1, and compare.", "{gate}"
    ),
    "vocabulary": _known(
        "the draft ids do not stand for the tokens the head was trained on",
        "Export head, d2t and t2d from one checkpoint.",
        INSPECT,
    ),
    "head": _known("the head is not the trained one", "Export the trained head.", INSPECT),
    "embedding": _known(
        "the drafter reads another embedding than in training",
        "Train with the target's embedding, which SGLang puts in place.",
        INSPECT,
    ),
    "rope": _known(
        "RoPE is another than in training",
        "State the training's rope_theta and scaling in the drafter's config.json.",
        INSPECT,
    ),
    "positions": _known(
        "positions are off while drafting",
        "Serve with another SGLang version, and compare.",
        "eagle3-checks bisect sglang",
    ),
    "context": _known(
        "the drafter's context is too short", "State and train the context served.", INSPECT
    ),
    "attention-heads": _known(
        "heads are cut otherwise than in training",
        "State the training's num_attention_heads, num_key_value_heads and head_dim.",
        INSPECT,
    ),
    "tensor-layout": _known(
        "tensors are exchanged or ordered otherwise than in training",
        "Compare the export script's names and orders with the training's modules.",
        INSPECT,
    ),
    "norms": _known(
        "norms are other than in training", "State the training's norm flags.", INSPECT
    ),
    "dtype": _known("dtypes do not fit", "Serve both in one dtype (--dtype).", INSPECT),
    "quantisation": _known(
        "quantisation does not fit the drafter",
        "Give --speculative-draft-model-quantization, or export the scales.",
        INSPECT,
    ),
    "weights": _known("weights hold no trained values", "Export the weights again.", INSPECT),
    "algorithm": _known(
        "the server does not run EAGLE-3", "Serve with --speculative-algorithm EAGLE3.", "{gate}"
    ),
    "flags": _known("the server's flags do not fit the drafter", "Correct the flags.", "{gate}"),
    "environment": _known(
        "the environment fakes the result", "Unset the variable and start again.", "{gate}"
    ),
    "server": _known(
        "the server does not start or stay up", "Read its log.", "eagle3-checks doctor"
    ),
    "loaded-weights": _known(
        "the served weights are not those of the file",
        "Start the server anew from the files; look for a weight sync or hot swap.",
        "{gate}",
    ),
    "wiring": _known(
        "the server feeds the drafter otherwise than the reference",
        "Look inside with the probe, and serve with another SGLang version.",
        "eagle3-checks bisect sglang",
    ),
    "alignment": _known(
        "the first draft alone is bad: mask or labels were shifted in training",
        "Check the trainer's loss mask against its inputs and labels.",
    ),
    "unroll": _known(
        "drafts after the first fail: the drafter was not trained on its own states",
        "Train with the unroll of EAGLE-3 (training-time test), as many steps as are served.",
    ),
    "prompts": _known(
        "acceptance depends on the kind of prompt",
        "Train on data like the prompts that fare badly; check the chat template.",
    ),
    "training": _known(
        "the drafter's weights do not predict this target well",
        "Train longer or on more data, written by the very target that is served.",
    ),
    "unexplained": _known(
        "nothing that was seen explains it", "Measure acceptance, and look inside.", "{gate}"
    ),
    "draft-cost": _known(
        "drafting costs more than it brings",
        "Try fewer steps or draft tokens at the concurrency that is served.",
    ),
    "losslessness": _known(
        "answers differ from the target's own", "Serve with another SGLang version.", "{gate}"
    ),
    "measurement": _known(
        "the figures cannot be trusted", "Mend the measurement, and run again.", "{gate}"
    ),
}

_BY_CODE: Mapping[str, str] = {
    "CFG002": "context",
    "CFG004": "algorithm",
    "CFG008": "attention-heads",
    "CFG009": "rope",
    "CFG010": "rope",
    "CFG011": "rope",
    "CFG012": "dtype",
    "CFG013": "dtype",
    "CFG014": "quantisation",
    "CFG015": "quantisation",
    "CFG016": "norms",
    "CFG017": "norms",
    "CFG018": "norms",
    "CFG020": "aux-layers",
    "CFG021": "fusion",
    "CFG023": "flags",
    "CFG024": "flags",
    "KEY006": "embedding",
    "KEY007": "head",
    "FUS001": "fusion",
    "FUS002": "fusion",
    "FUS003": "fusion",
    "FUS004": "fusion",
    "FUS006": "fusion",
    "VAL005": "norms",
    "VAL006": "embedding",
    "SRV001": "flags",
    "SRV002": "environment",
    "SRV005": "measurement",
    "SRV010": "environment",
    "WIR000": "measurement",
    "WIR001": "tensors",
    "WIR002": "tensors",
    "WIR003": "fusion",
    "WIR004": "wiring",
    "WIR005": "ranks",
    "WIR006": "head",
    "WIR007": "vocabulary",
    "WIR008": "loaded-weights",
    "ACC003": "measurement",
    "ACC004": "server",
    "ACC006": "measurement",
    "SPD002": "server",
    "SPD003": "measurement",
    "SPD005": "measurement",
}
_BY_FAMILY: Mapping[str, str] = {
    "SRC": "files",
    "CFG": "config",
    "KEY": "tensors",
    "FUS": "aux-layers",
    "VOC": "vocabulary",
    "VAL": "weights",
    "SRV": "server",
    "WIR": "wiring",
    "LOS": "losslessness",
    "ACC": "training",
    "SPD": "draft-cost",
}


def name_of(code: str, evidence: Mapping[str, Any] | None = None) -> str:
    """Return the name of the cause that a finding is about, by its evidence where need be."""
    if code == "WIR004" and evidence:
        return _of_states(evidence)
    if code == "WIR006" and evidence:
        return "embedding" if "embed" in str(evidence.get("parameter")) else "head"
    return _BY_CODE.get(code) or _BY_FAMILY.get(code[:3], "config")


def _of_states(evidence: Mapping[str, Any]) -> str:
    """Tell by what the aux states were found to be."""
    found = evidence.get("found") or ()
    kinds = {match["kind"] for match in found}
    if kinds == {"state"}:
        layers = sorted(match["layer"] for match in found)
        return "aux-order" if layers == sorted(evidence["expected"]) else "aux-layers"
    if kinds == {"output"}:
        return "residual"
    if kinds & {"scaled", "unfinished"}:
        return "partial-sums"
    return "wiring" if found else "fusion"
