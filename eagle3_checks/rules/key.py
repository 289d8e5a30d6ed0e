"""KEY: whether the names of tensors lead to the parameters that SGLang builds."""

from __future__ import annotations

from collections.abc import Iterator

from eagle3_checks.checkpoint.files import shown
from eagle3_checks.contract.parameters import Init
from eagle3_checks.contract.replay import Fate, LoadPlan, ParameterPlan, State, TensorPlan
from eagle3_checks.contract.version import LLAMA, Contract, first_version
from eagle3_checks.facts import DraftConfig, Manifest
from eagle3_checks.rules import shared
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.hints import LAYER, group, harmless
from eagle3_checks.rules.plan import FC, is_decoder, names_of, plan_of, takes_aux
from eagle3_checks.rules.shapes import formula
from eagle3_checks.rules.text import counted, listed, sentence, shape
from eagle3_checks.verdict import Severity

FILES = ("SRC001", "SRC002", "SRC004", "CFG001", "CFG003")
MOST_NAMED = 1000
"""Tensors that a finding's evidence names."""
MOST_REFUSED = 12
"""Tensors whose refusal is told one by one."""
LLAMA_SOURCE = (
    "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/models/llama_eagle3.py"
)


class KEY001(Rule):
    """Every tensor of the file reaches a parameter."""

    title = "Every tensor is loaded"
    why = (
        "SGLang's drafter classes skip a tensor whose name they do not know without a word. The "
        "parameter it was meant for keeps its random initial value, every answer stays right, and "
        "the drafter proposes noise."
    )
    fix = "Rename the tensors to what this SGLang version reads, or use a version that reads them."
    references = (LLAMA_SOURCE,)
    requires = FILES

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Report dropped tensors, grouped by cause."""
        plan = plan_of(manifest, draft, contract)
        if isinstance(plan, Skip):
            return plan
        dropped = [t for t in plan.with_fate(Fate.DROPPED) if not harmless(t.name)]
        problems = (*_dropped(plan, dropped, contract), *_overwritten(plan, contract))
        return problems or Passed(message=f"all of {counted(len(plan.tensors), 'tensor')} are read")


def _dropped(plan: LoadPlan, dropped: list[TensorPlan], contract: Contract) -> Iterator[Problem]:
    for found in group(plan, dropped, contract):
        names = [t.name for t in found.tensors]
        alone = len(names) == 1
        subject = listed(names)
        if not alone:
            subject = (
                f"{counted(len(names), 'tensor')} {listed([found.label])} ({listed(names, 2)})"
            )
        yield Problem(
            message=(
                f"{subject} {'is' if alone else 'are'} dropped by SGLang {contract.name}: "
                f"{_bounded(found.tensors[0].reason)}"
            ),
            evidence={
                "tensors": names[:MOST_NAMED],
                "count": len(names),
                "label": shown(found.label),
            },
            fix=sentence(_bounded(found.hint)),
        )


def _overwritten(plan: LoadPlan, contract: Contract) -> Iterator[Problem]:
    """Tell tensors of several names that SGLang reads into one place, where the last one stays."""
    shards = {tensor.name: tensor.shard for tensor in plan.tensors}
    for parameter in plan.parameters:
        if parameter.state is State.TARGET:
            continue
        names: dict[str, None] = {}
        for shard in parameter.parameter.shards or (None,):
            takers = [n for n in parameter.by if shards[n] in (None, shard)]
            names |= dict.fromkeys(takers if len(takers) > 1 else ())
        if not names:
            continue
        yield Problem(
            message=(
                f"{listed(names)} are read into one place by SGLang {contract.name}; the one that "
                "comes last stays"
            ),
            evidence={"tensors": list(names)},
            fix="Keep one of them, the one that was trained.",
            severity=Severity.WARNING,
        )


def _bounded(text: str) -> str:
    """Shorten what a long name of a file makes long."""
    return shown(text, 240)


class KEY002(Rule):
    """Every parameter that the forward pass reads is filled from the file or by the target."""

    title = "No parameter is left at its initial value"
    why = (
        "SGLang never asks whether a parameter received its weights. One that did not holds "
        "uninitialised memory (or ones, for a norm), and the drafter proposes noise while every "
        "answer stays right."
    )
    fix = "Export the missing tensors, or correct their names (KEY001)."
    references = (LLAMA_SOURCE, "https://github.com/sgl-project/sglang/issues/27829")
    requires = FILES

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Report parameters that nothing fills: random ones as errors, norms as warnings."""
        plan = plan_of(manifest, draft, contract)
        if isinstance(plan, Skip):
            return plan
        open_ = plan.unfilled
        if not takes_aux(draft, contract):
            open_ = tuple(p for p in open_ if not p.name.startswith(FC))
        if open_:
            return tuple(_unfilled(plan, open_))
        shared = [p.name for p in plan.parameters if p.state is State.TARGET]
        ending = f"; the target's: {listed(shared)}" if shared else ""
        return Passed(message=f"{counted(len(plan.parameters), 'parameter')} filled{ending}")


def _unfilled(plan: LoadPlan, parameters: tuple[ParameterPlan, ...]) -> Iterator[Problem]:
    random = [p for p in parameters if p.parameter.init is Init.RANDOM]
    special = {"lm_head.weight": _head, "model.embed_tokens.weight": _embedding}
    for parameter in random:
        if parameter.name in special:
            yield special[parameter.name](plan, parameter)
    others = [p for p in random if p.name not in special]
    if others:
        yield Problem(
            message=(
                f"{counted(len(others), 'parameter')} left at random initial values: "
                f"{listed([_described(p) for p in others], 8)}"
            ),
            evidence={"parameters": list(names_of(tuple(others)))},
        )
    constant = [p for p in parameters if p.parameter.init is not Init.RANDOM]
    if constant:
        values = " or ".join(dict.fromkeys(p.parameter.init.value for p in constant))
        yield Problem(
            message=(
                f"{counted(len(constant), 'parameter')} left at {values}: "
                f"{listed(names_of(tuple(constant)), 8)}; SGLang applies them all the same"
            ),
            evidence={"parameters": list(names_of(tuple(constant)))},
            fix=(
                "Export these tensors; where the drafter was trained without them, it is not "
                "served as it was trained."
            ),
            severity=Severity.WARNING,
        )


def _described(plan: ParameterPlan) -> str:
    """Name a parameter, with the parts that are missing where some are there."""
    if plan.state is State.PARTLY:
        return f"{plan.name} (its {', '.join(plan.missing)} part)"
    return plan.name


def _head(plan: LoadPlan, parameter: ParameterPlan) -> Problem:
    rows, full = plan.dims.draft_vocab, plan.dims.vocab
    fix = "Export lm_head.weight with the drafter."
    if rows == full:
        fix += " To use the target's head instead, write draft_vocab_size: null."
    return Problem(
        message=(
            f"lm_head.weight is missing: draft_vocab_size is {rows}, so SGLang builds a head of "
            f"{shape(parameter.parameter.wanted())} and leaves it random (accept length 1.0)"
        ),
        evidence={"parameters": [parameter.name]},
        fix=fix,
    )


def _embedding(plan: LoadPlan, parameter: ParameterPlan) -> Problem:
    return Problem(
        message=(
            f"embed_tokens.weight is missing: target_hidden_size {plan.dims.target_hidden} differs "
            f"from hidden_size {plan.dims.hidden}, so SGLang does not use the target's embedding "
            "and leaves the drafter's random"
        ),
        evidence={"parameters": [parameter.name]},
        fix="Export embed_tokens.weight with the drafter.",
    )


class KEY003(Rule):
    """The decoder layer is there, under a name that this version reads."""

    title = "The decoder layer is found"
    why = (
        "Up to 0.5.11 SGLang reads the decoder layer as midlayer.* alone; trainers also write "
        "layers.0.*. Under any other name the whole layer is dropped in silence and stays random: "
        "accept length 1.0."
    )
    fix = f"Rename the decoder layer's tensors to {LAYER}.*, which every SGLang version reads."
    references = (LLAMA_SOURCE, "https://github.com/sgl-project/sglang/pull/24663")
    requires = FILES

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Report a decoder layer that receives no tensor at all."""
        plan = plan_of(manifest, draft, contract)
        if isinstance(plan, Skip):
            return plan
        layer = [p for p in plan.parameters if is_decoder(p.name)]
        reached = [name for p in layer for name in p.by]
        if not reached and any(t.parameter and is_decoder(t.parameter) for t in plan.tensors):
            return Skip("its names are right and its shapes are not: KEY004")
        if reached:
            prefix = reached[0].partition(".self_attn")[0].partition(".mlp")[0]
            return Passed(message=f"{counted(len(reached), 'tensor')} read, as {prefix}.*")
        both = plan.dims.drafter_class != LLAMA or contract.llama.layer_module == "layers"
        reads = f"{LAYER}.* and layers.0.*" if both else f"{LAYER}.*"
        tops = dict.fromkeys(f"{t.name.partition('.self_attn.')[0]}.*" for t in _attention(plan))
        seen = f"; the file has {listed(list(tops))}" if tops else "; the file has no attention"
        since = first_version({"layer_module": "layers"})
        later = "" if both else f" (layers.0.* from {since} on)"
        return (
            Problem(
                message=(
                    f"no tensor is read into the decoder layer: SGLang {contract.name} reads "
                    f"{reads}{later}{seen}"
                ),
                evidence={"reads": reads, "seen": list(tops)},
            ),
        )


def _attention(plan: LoadPlan) -> Iterator[TensorPlan]:
    return (t for t in plan.tensors if ".self_attn." in t.name)


class KEY004(Rule):
    """No tensor has a shape that its parameter refuses, or takes only in part."""

    title = "Every tensor has the shape its parameter takes"
    why = (
        "A shape that does not fit stops the server while it loads. Worse, SGLang cuts surplus "
        "rows of q, k, v, gate and up (columns of o and down) off and pads missing ones with "
        "zeros, both in silence."
    )
    fix = "Correct the sizes in config.json, or export the tensor in the shape the config states."
    references = (
        "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/layers/linear.py",
    )
    requires = FILES

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Report tensors that are refused, cut or padded; fc is judged by FUS001."""
        plan = plan_of(manifest, draft, contract)
        if isinstance(plan, Skip):
            return plan
        wrong = [
            tensor
            for tensor in plan.with_fate(Fate.FATAL, Fate.CUT, Fate.PADDED)
            if not (tensor.parameter or "").startswith(FC)
        ]
        # Refusals first: where there are more than are told, the worst are told.
        wrong.sort(key=lambda tensor: tensor.fate is not Fate.FATAL)
        told = tuple(_refused(plan, tensor, contract) for tensor in wrong[:MOST_REFUSED])
        rest = [tensor.name for tensor in wrong[MOST_REFUSED:]]
        return (*told, _more(rest)) if rest else told


_CONSEQUENCES = {
    Fate.FATAL: "the server stops while loading",
    Fate.CUT: "the surplus is cut off in silence",
    Fate.PADDED: "what is missing is filled with zeros in silence",
}


def _refused(plan: LoadPlan, tensor: TensorPlan, contract: Contract) -> Problem:
    name = listed([tensor.name])
    if tensor.parameter is None or tensor.wanted is None:
        return Problem(
            message=(
                f"{name}: SGLang {contract.name} stops while loading: {_bounded(tensor.reason)}"
            ),
            evidence={"tensor": tensor.name},
            fix="Rename the tensor to a name this version reads (KEY003), or leave it out.",
        )
    parameter = next(p.parameter for p in plan.parameters if p.name == tensor.parameter)
    return Problem(
        message=(
            f"{name} is {shape(tensor.seen)}; SGLang builds {shape(tensor.wanted)} = "
            f"{formula(plan.dims, parameter, tensor.shard)}; {_CONSEQUENCES[tensor.fate]}"
        ),
        evidence={
            "tensor": tensor.name,
            "parameter": tensor.parameter,
            "seen": list(tensor.seen),
            "wanted": list(tensor.wanted),
            "fate": tensor.fate.value,
        },
    )


def _more(names: list[str]) -> Problem:
    return Problem(
        message=f"{counted(len(names), 'more tensor')}, as {listed(names)}",
        evidence={"tensors": names[:MOST_NAMED], "count": len(names)},
        fix="Correct those above and look again, or check that this is a drafter's file.",
    )


RULES: tuple[type[Rule], ...] = (KEY001, KEY002, KEY003, KEY004, *shared.RULES)
