"""FUS005 to FUS007: whether as many hidden states of the target reach fc as it takes.

Boundaries are Hugging Face's ``hidden_states[i]``: what enters layer i of the target.
"""

from __future__ import annotations

from eagle3_checks.contract.capture import Capture, NoCapture, first_capturing, resolve_capture
from eagle3_checks.contract.dims import Dims, dims_of
from eagle3_checks.contract.version import Contract, ContractError
from eagle3_checks.facts import DraftConfig, TargetConfig
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.captured import FILES, ids, resolved, source
from eagle3_checks.rules.text import counted
from eagle3_checks.verdict import Severity

BYPASS = "https://github.com/sgl-project/sglang/pull/21272"


def _dims(draft: DraftConfig, contract: Contract) -> Dims | Skip:
    try:
        return dims_of(draft, contract)
    except ContractError as error:
        return Skip(f"SGLang {contract.name} cannot build this drafter: {error}")


class FUS005(Rule):
    """The target captures as many different layers as fc takes states."""

    title = "The captured layers are distinct"
    why = (
        "SGLang captures a layer once, however often it is named. Its default, layers 2, n // 2 "
        "and n - 3, names fewer than three for shallow targets: with 1, 2 or 5 layers a single "
        "state arrives and fc is skipped in silence; with 4 or 6 fc is handed two of three."
    )
    fix = (
        "Use a target of 7 layers or more, or state distinct layers in "
        "eagle_config.eagle_aux_hidden_state_layer_ids."
    )
    references = (BYPASS,)
    requires = FILES

    @staticmethod
    def check(draft: DraftConfig, target: TargetConfig, contract: Contract) -> Outcome:
        """Count the layers that the default, or the stated ids, leave."""
        capture, dims = resolved(draft, target, contract), _dims(draft, contract)
        if isinstance(capture, Skip):
            return capture
        if isinstance(dims, Skip):
            return dims
        if capture.stated is not None and capture.unreached:
            return Skip("an id is never reached (FUS007)")
        count = len(capture.boundaries)
        if count == dims.aux and not capture.stops:
            return Passed(
                message=source(capture), evidence={"boundaries": list(capture.boundaries)}
            )
        arrive = f"{counted(count, 'state')} of {dims.aux} arrive{'s' if count == 1 else ''}"
        return (
            Problem(
                message=f"{source(capture)}, so {arrive}: {_effect(capture, dims, contract)}",
                evidence={
                    "layers": list(capture.stated or capture.wanted),
                    "boundaries": list(capture.boundaries),
                    "distinct": count,
                    "aux": dims.aux,
                },
            ),
        )


def _effect(capture: Capture, dims: Dims, contract: Contract) -> str:
    """Say what a wrong number of states leads to."""
    if capture.stops:
        return capture.stops
    loader = contract.mla if dims.mla else contract.llama
    by_width = loader is not None and loader.fc_by_width
    if by_width and len(capture.boundaries) * dims.target_hidden == dims.hidden:
        return "fc is skipped in silence"
    return "fc is handed another width"


class FUS006(Rule):
    """The target's class can be told which layers to capture, and captures them."""

    title = "The target can hand over its aux hidden states"
    why = (
        "EAGLE-3 reads hidden states from inside the target, which every target class of SGLang "
        "must implement for itself. Where it does not, the server stops at its start; where it "
        "is told but looks elsewhere, no state arrives at all."
    )
    fix = "Serve with an SGLang version whose class for this target captures aux hidden states."
    references = (
        "https://github.com/sgl-project/sglang/issues/17935",
        "https://github.com/sgl-project/sglang/pull/25408",
    )
    requires = ("SRC002", "SRC003", "CFG001")

    @staticmethod
    def check(draft: DraftConfig, target: TargetConfig, contract: Contract) -> Outcome:
        """Error for a class that cannot; a class that SGLang does not know is a warning."""
        drafter = next((a for a in target.architectures if a in contract.classes), None)
        if drafter is not None:
            return (_own_kind(drafter, draft, target),)
        try:
            found = resolve_capture(draft, target, contract)
        except ContractError as error:
            return Skip(str(error))
        return _captures(found, contract) if isinstance(found, Capture) else _none(found)


def _captures(found: Capture, contract: Contract) -> Outcome:
    if not found.rule.nothing:
        return Passed(message=f"{found.target_class} captures aux hidden states")
    reason = (
        f"{found.target_class} of SGLang {contract.name} takes the layers to capture, but "
        "its forward pass never looks at them: no aux state arrives"
    )
    return (_cannot(found.target_class, reason),)


def _none(found: NoCapture) -> Outcome:
    if found.off:
        return Skip(found.reason)
    if found.known:
        return (_cannot(found.target_class, f"{found.reason}: the server stops at its start"),)
    return (_unknown(found),)


def _cannot(target_class: str, reason: str) -> Problem:
    since = first_capturing(target_class)
    return Problem(
        message=f"the target's {reason}" + (f"; {since} can" if since else ""),
        evidence={"class": target_class, "since": since},
        fix=f"Serve with SGLang {since} or later." if since else "",
    )


def _own_kind(drafter: str, draft: DraftConfig, target: TargetConfig) -> Problem:
    same = "the target is the drafter itself: " if draft.source == target.source else ""
    return Problem(
        message=(
            f"{same}the target's architectures is {drafter}, which is an EAGLE-3 drafter's: served "
            "as a target, its forward pass lacks the hidden states of another model, and SGLang "
            "stops"
        ),
        evidence={"class": drafter},
        fix="Give the model that the drafter was trained for as the target.",
    )


def _unknown(found: NoCapture) -> Problem:
    return Problem(
        message=(
            f"{found.reason}: it serves such a target through transformers' own model, which hands "
            "over no aux states, unless an external model package brings a class that does"
        ),
        evidence={"class": found.target_class},
        fix="Check that the target's architectures is right, and that this version serves it.",
        severity=Severity.WARNING,
    )


class FUS007(Rule):
    """Every stated layer is one that the target reaches."""

    title = "The stated layers are inside the target"
    why = (
        "SGLang captures a state where it enters a layer. An id past the target's end, or, for "
        "most classes, the one that means the last layer's output, is waited for in vain: fc is "
        "handed fewer states than it was built for."
    )
    fix = (
        "State the layers the drafter was trained with, counted as SGLang does for this target's "
        "class; check that drafter and target belong together."
    )
    references = (
        "https://github.com/sgl-project/sglang/pull/32334",
        "https://github.com/vllm-project/vllm/pull/46788",
    )
    requires = FILES

    @staticmethod
    def check(draft: DraftConfig, target: TargetConfig, contract: Contract) -> Outcome:
        """Report boundaries that are asked for and never captured."""
        capture, dims = resolved(draft, target, contract), _dims(draft, contract)
        if isinstance(capture, Skip):
            return capture
        if isinstance(dims, Skip):
            return dims
        if capture.stated is None:
            return Skip("no layer ids are stated (FUS005 counts SGLang's default)")
        if not capture.unreached:
            return Passed(message=f"{source(capture)}, captured as {ids(capture.boundaries)}")
        end = capture.depth if capture.rule.last else capture.depth - 1
        few = len(capture.boundaries)
        effect = capture.stops or f"{few} of {dims.aux} states arrive"
        fits = few == dims.aux and not capture.stops
        return (
            Problem(
                message=(
                    f"{source(capture)} mean the boundaries {ids(capture.wanted)}; "
                    f"{capture.target_class} of {capture.depth} layers captures 0 to {end}, so "
                    f"{ids(capture.unreached)} never comes: {effect}"
                ),
                evidence={
                    "ids": list(capture.stated),
                    "wanted": list(capture.wanted),
                    "unreached": list(capture.unreached),
                    "depth": capture.depth,
                },
                severity=Severity.WARNING if fits else None,
            ),
        )


RULES: tuple[type[Rule], ...] = (FUS005, FUS006, FUS007)
