"""FUS: whether the fusion layer fits the aux hidden states that the target hands over."""

from __future__ import annotations

from eagle3_checks.contract.capture import captures_aux, no_aux
from eagle3_checks.contract.replay import LoadPlan, TensorPlan
from eagle3_checks.contract.version import LLAMA, Contract
from eagle3_checks.facts import DraftConfig, Manifest, TargetConfig
from eagle3_checks.rules import fus_ids, fus_layers
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.plan import plan_of
from eagle3_checks.rules.text import shape

FC_WEIGHT = "model.fc.weight"
KEYS = ("SRC001", "SRC002", "SRC004", "CFG001", "CFG003")
BYPASS = "https://github.com/sgl-project/sglang/pull/21272"


def _fc(plan: LoadPlan) -> TensorPlan | None:
    return next((t for t in plan.tensors if t.parameter == FC_WEIGHT), None)


class FUS001(Rule):
    """``fc.weight`` fuses as many aux states, of the width, as SGLang hands over."""

    title = "fc takes all aux states of the target"
    why = (
        "fc turns the target's aux hidden states, side by side, into one state of the drafter's "
        "width. A weight for another number or width of states was trained on other inputs than "
        "it is served."
    )
    fix = (
        "Export fc as it was trained, [hidden_size, aux states x target hidden], and state "
        "target_hidden_size and the aux layer ids it was trained with in config.json."
    )
    references = ("https://github.com/sgl-project/sglang/pull/24663",)
    requires = KEYS

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Compare the file's fc with the one that SGLang builds."""
        plan = plan_of(manifest, draft, contract)
        if isinstance(plan, Skip):
            return plan
        tensor = _fc(plan)
        if tensor is None:
            return Skip("there is no fc.weight (FUS002)")
        dims = plan.dims
        wanted = (dims.hidden, dims.fused)
        equation = f"{shape(wanted)} = {dims.formula}"
        if tensor.seen == wanted:
            return Passed(message=f"fc.weight is {equation}")
        return (
            Problem(
                message=f"fc.weight is {shape(tensor.seen)}; SGLang builds {equation}",
                evidence={"seen": list(tensor.seen), "wanted": list(wanted), "aux": dims.aux},
                fix=_fc_fix(tensor, plan, contract),
            ),
        )


def _fc_fix(tensor: TensorPlan, plan: LoadPlan, contract: Contract) -> str:
    """Say which number of aux states the file's width would be right for."""
    dims = plan.dims
    two = len(tensor.seen) == 2  # noqa: PLR2004 - a matrix
    if not two or tensor.seen[0] != dims.hidden or tensor.seen[1] % dims.target_hidden:
        return ""
    states = tensor.seen[1] // dims.target_hidden
    if states == 1:
        return (
            f"This fc fuses a single state: it was trained on one hidden state and not on "
            f"{dims.aux}, so it must be trained again with {dims.aux} aux states."
        )
    if contract.llama.aux_count == "three":
        return f"SGLang {contract.name} always takes 3 aux states; from 0.5.12 on it asks config."
    return (
        f"This fc fuses {states} states: state the {states} layer ids it was trained with in "
        "eagle_config.eagle_aux_hidden_state_layer_ids."
    )


class FUS002(Rule):
    """There is a fusion layer in the file."""

    title = "fc is in the file"
    why = "Without fc.weight SGLang fuses the target's aux states with random numbers."
    fix = "Export fc.weight with the drafter; the key is called fc.weight at the top level."
    requires = KEYS

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Report a missing fc, unless the drafter takes no aux states."""
        plan = plan_of(manifest, draft, contract)
        if isinstance(plan, Skip):
            return plan
        if not captures_aux(draft, contract):
            return Skip(no_aux(draft))
        tensor = _fc(plan)
        if tensor is not None:
            return Passed(message=f"{tensor.name} {shape(tensor.seen)}")
        dims = plan.dims
        return (
            Problem(
                message=(
                    f"fc.weight is missing; SGLang builds {shape((dims.hidden, dims.fused))} = "
                    f"{dims.formula} and leaves it random"
                ),
                evidence={"wanted": [dims.hidden, dims.fused]},
            ),
        )


class FUS003(Rule):
    """The fused width differs from the embedding's, so that SGLang does run fc."""

    title = "fc is not skipped for its width"
    why = (
        "SGLang runs fc only where the incoming width differs from the embedding's. A single aux "
        "state as wide as the drafter passes by fc, and by the norms before it, without a word."
    )
    fix = "Train with more than one aux state; SGLang's own number is 3."
    references = (BYPASS,)
    requires = ("SRC002", "CFG001", "CFG003")

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Report a fused width equal to hidden_size."""
        plan = plan_of(manifest, draft, contract)
        if isinstance(plan, Skip):
            return plan
        if not captures_aux(draft, contract):
            return Skip(no_aux(draft))
        dims = plan.dims
        loader = contract.llama if dims.drafter_class == LLAMA else contract.mla
        if loader is None or not loader.fc_by_width:
            return Skip(f"SGLang {contract.name} does not choose by the width whether fc runs")
        if dims.fused != dims.hidden:
            return Passed(message=f"{dims.fused} = {dims.formula} differs from {dims.hidden}")
        return (
            Problem(
                message=(
                    f"the aux states are {dims.fused} wide = {dims.formula}, which equals "
                    f"hidden_size {dims.hidden}: SGLang takes them for fused and never runs fc"
                ),
                evidence={"fused": dims.fused, "hidden_size": dims.hidden},
            ),
        )


class FUS004(Rule):
    """The drafter was made for a target of this width."""

    title = "The drafter expects the target's hidden size"
    why = (
        "fc is built for aux states as wide as target_hidden_size (hidden_size where the config "
        "states none). A target of another width stops the server at its first request, or is "
        "not the one the drafter was trained for."
    )
    fix = "Check that drafter and target belong together, and state target_hidden_size."
    requires = ("SRC002", "SRC003", "CFG001", "CFG003")

    @staticmethod
    def check(
        manifest: Manifest, draft: DraftConfig, target: TargetConfig, contract: Contract
    ) -> Outcome:
        """Compare the target's width with the drafter's idea of it."""
        plan = plan_of(manifest, draft, contract)
        if isinstance(plan, Skip):
            return plan
        if target.hidden_size is None:
            return Skip("the target's config.json states no hidden_size")
        seen = plan.dims.target_hidden
        key = "hidden_size" if draft.target_hidden_size is None else "target_hidden_size"
        if seen == target.hidden_size:
            return Passed(message=f"{key} {seen}")
        return (
            Problem(
                message=(
                    f"the drafter's {key} is {seen}; the target's hidden_size is "
                    f"{target.hidden_size}, so fc would take {plan.dims.aux} x {seen} = "
                    f"{plan.dims.fused} and receive {plan.dims.aux * target.hidden_size}"
                ),
                evidence={"drafter": seen, "target": target.hidden_size},
            ),
        )


RULES: tuple[type[Rule], ...] = (FUS001, FUS002, FUS003, FUS004, *fus_layers.RULES, *fus_ids.RULES)
