"""CFG020 to CFG022: whether all that states a number states the same one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from eagle3_checks.contract.capture import Capture
from eagle3_checks.contract.dims import DEFAULT_AUX, Dims, dims_of
from eagle3_checks.contract.version import LLAMA, Contract, ContractError
from eagle3_checks.facts import DraftConfig, Manifest, TargetConfig
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.captured import resolved
from eagle3_checks.rules.plan import takes_aux
from eagle3_checks.rules.text import counted
from eagle3_checks.verdict import Severity

IDS = "eagle_aux_hidden_state_layer_ids"
MANY = "https://github.com/sgl-project/sglang/pull/24663"
NO_AUX = "eagle_config.use_aux_hidden_state is false: this drafter takes no aux states"
_LAYER = re.compile(r"(?:^|\.)(?:layers|midlayer)\.(?:(?P<layer>\d{1,4})\.)?(?:self_attn|mlp)\.")
_MATRIX = 2


class CFG020(Rule):
    """All that states the number of aux states states one number."""

    title = "The number of aux states is one and the same everywhere"
    why = (
        "SGLang builds fc for num_aux_hidden_states, else for as many states as "
        "eagle_config names layer ids, else for three, and captures by the layer ids in "
        "eagle_config alone, by default three. Where the two differ, fc is handed another width "
        "and the server stops at its first batch."
    )
    fix = (
        f"State the layer ids in eagle_config.{IDS}, and num_aux_hidden_states, where it is "
        "stated, as their number."
    )
    references = (MANY, "https://github.com/vllm-project/speculators/issues/753")
    requires = ("SRC001", "SRC002", "CFG001")

    @staticmethod
    def check(
        manifest: Manifest,
        draft: DraftConfig,
        contract: Contract,
        target: TargetConfig | None = None,
    ) -> Outcome:
        """Error where what is built differs from what is captured, else a warning."""
        if not takes_aux(draft, contract):
            return Skip(NO_AUX)
        try:
            dims = dims_of(draft, contract)
        except ContractError as error:
            return Skip(f"the sizes are not known: {error}")
        stated = dict(_statements(manifest, draft, dims))
        ids = draft.aux_layer_ids if contract.reads_aux_ids else None
        captured = len(set(ids)) if ids is not None else DEFAULT_AUX
        seen = ", ".join(f"{place} {number}" for place, number in stated.items()) or "none stated"
        doubled = ids is not None and captured != len(ids) == dims.aux
        if doubled and target and isinstance(resolved(draft, target, contract), Capture):
            return Skip("an id is stated twice, and what is captured is counted by FUS005")
        if captured != dims.aux:
            source = f"eagle_config.{IDS}" if ids is not None else "the default ids"
            return (
                Problem(
                    message=(
                        f"fc is built for {counted(dims.aux, 'aux state')}, but {source} capture "
                        f"{captured} ({seen})"
                    ),
                    evidence={"built": dims.aux, "captured": captured, "stated": stated},
                ),
            )
        if any(number != dims.aux for number in stated.values()):
            return (
                Problem(
                    message=(
                        f"the number of aux states is stated as {seen}; SGLang {contract.name} "
                        f"builds and captures {dims.aux}"
                    ),
                    evidence={"built": dims.aux, "stated": stated},
                    severity=Severity.WARNING,
                ),
            )
        return Passed(message=f"{dims.aux} ({seen})")


def _statements(manifest: Manifest, draft: DraftConfig, dims: Dims) -> Iterator[tuple[str, int]]:
    """Yield each number of aux states that config or tensors come to, with where it stands."""
    if draft.num_aux_hidden_states is not None:
        yield "num_aux_hidden_states", draft.num_aux_hidden_states
    if draft.aux_layer_ids is not None:
        yield f"eagle_config.{IDS}", len(draft.aux_layer_ids)
    if draft.aux_layer_ids_top_level is not None:
        yield IDS, len(draft.aux_layer_ids_top_level)
    for name, info in manifest.tensors.items():
        fused = info.shape[-1] if info.shape else 0
        states, rest = divmod(fused, dims.target_hidden)
        fuses = name.endswith("input_norm.weight") or (
            name.endswith("fc.weight") and len(info.shape) == _MATRIX
        )
        if fuses and states and not rest:
            yield name, states
    norms = {name for name in manifest.tensors if ".fc_norm." in f".{name}" or "aux_norm_" in name}
    if norms:
        yield "fc_norm tensors", len(norms)


class CFG021(Rule):
    """A drafter with a fusion layer is handed aux states."""

    title = "use_aux_hidden_state agrees with fc"
    why = (
        "With use_aux_hidden_state: false the target hands over its last hidden state alone, which "
        "is as wide as the embedding, and SGLang skips fc. That is right for a drafter that was "
        "trained so, and has no fc; one that has a fusion layer then proposes noise."
    )
    fix = "Write eagle_config.use_aux_hidden_state: true, or leave it out."
    references = ("https://github.com/sgl-project/sglang/pull/14920",)
    requires = ("SRC001", "SRC002", "CFG001")

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Report a fusion layer in the file of a drafter that is handed one state."""
        if takes_aux(draft, contract):
            return Passed(message="aux states are handed over")
        hidden = draft.target_hidden_size or draft.hidden_size or 0
        for name, info in manifest.tensors.items():
            wide = len(info.shape) == _MATRIX and info.shape[1] > hidden
            if name.endswith("fc.weight") and wide:
                return (
                    Problem(
                        message=(
                            f"eagle_config.use_aux_hidden_state is false, but {name} is "
                            f"{list(info.shape)}: it fuses {info.shape[1]} numbers and is handed "
                            f"{hidden}, so SGLang skips it"
                        ),
                        evidence={"tensor": name, "shape": list(info.shape)},
                    ),
                )
        return Passed(message="no aux states, and no fusion layer that needs them")


class CFG022(Rule):
    """The file has as many decoder layers as config.json states."""

    title = "num_hidden_layers is the number of layers in the file"
    why = (
        "Configs copied from a target state 32 or 40 layers for a drafter of one. SGLang builds as "
        "many and leaves those that the file does not have at random values, or stops."
    )
    fix = "Write the number of decoder layers in the file as num_hidden_layers."
    references = (
        "https://github.com/sgl-project/SpecForge/issues/129",
        "https://github.com/NickL77/BaldEagle/issues/6",
    )
    requires = ("SRC001", "SRC002", "SRC004", "CFG001")

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Compare num_hidden_layers with the layers that have a tensor."""
        found = {int(m["layer"] or 0) for m in map(_LAYER.search, manifest.tensors) if m}
        if not found:
            return Skip("the file has no decoder layer under a known name (KEY003)")
        held, stated = len(found), draft.num_hidden_layers
        if stated is None or stated == held:
            return Passed(message=counted(held, "layer"))
        more = LLAMA in draft.architectures and contract.llama.many_layers
        effect = "leaves the others random" if more else "takes 1 and stops"
        if stated < held:
            effect = "drops the others"
        return (
            Problem(
                message=(
                    f"num_hidden_layers is {stated}; the file has "
                    f"{counted(held, 'decoder layer')}: SGLang {contract.name} {effect}"
                ),
                evidence={"stated": stated, "held": held},
                fix=f"Write num_hidden_layers: {held}.",
            ),
        )


RULES: tuple[type[Rule], ...] = (CFG020, CFG021, CFG022)
