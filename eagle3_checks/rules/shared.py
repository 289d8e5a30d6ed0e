"""KEY005 to KEY007: what SGLang puts in the place of the drafter's tensors, or never reads."""

from __future__ import annotations

import re

from eagle3_checks.contract.replay import State
from eagle3_checks.contract.version import Contract
from eagle3_checks.facts import DraftConfig, Manifest
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.plan import plan_of
from eagle3_checks.rules.text import listed
from eagle3_checks.verdict import Severity

FILES = ("SRC001", "SRC002", "SRC004", "CFG001", "CFG003")
EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
_LATER = re.compile(r"model\.layers\.(?P<layer>[1-9]\d*)\.input_layernorm\.weight")


class KEY005(Rule):
    """Decoder layers after the first norm their input by the norm that the file has."""

    title = "Later decoder layers have their input norm"
    why = (
        "SGLang norms the input of every layer after the first by hidden_norm; vLLM, speculators "
        "and ModelOpt call the same norm input_layernorm. Under that name it is read into a "
        "parameter that is never used, and the layer is normed by ones."
    )
    fix = "Rename layers.N.input_layernorm to layers.N.hidden_norm for every N from 1 on."
    references = ("https://github.com/sgl-project/sglang/pull/24663",)
    requires = FILES

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Report unused input norms whose layer's hidden_norm received nothing."""
        plan = plan_of(manifest, draft, contract)
        if isinstance(plan, Skip):
            return plan
        states = {p.name: p.state for p in plan.parameters}
        idle = [
            t.name
            for t in plan.tensors
            if (t.parameter and _LATER.fullmatch(t.parameter))
            and states.get(t.parameter.replace("input_layernorm", "hidden_norm")) is State.INITIAL
        ]
        if not idle:
            return Passed(message=f"num_hidden_layers {plan.dims.layers}")
        renamed = [name.replace("input_layernorm", "hidden_norm") for name in idle]
        return (
            Problem(
                message=(
                    f"{listed(idle)} {'is' if len(idle) == 1 else 'are'} read into a norm that "
                    f"SGLang never uses; it looks for {listed(renamed)} and norms by ones instead"
                ),
                evidence={"tensors": idle, "wanted": renamed},
                fix=f"Rename {idle[0]} to {renamed[0]}"
                + (", and the others alike." if len(idle) > 1 else "."),
            ),
        )


class KEY006(Rule):
    """An embedding that was trained with the drafter is the one it is served with."""

    title = "No trained embedding is discarded"
    severity = Severity.WARNING
    why = (
        "SGLang puts the target's embedding in the place of the drafter's wherever their widths "
        "agree. That is right for the many drafters that ship a copy of the target's; one whose "
        "trainer went on training the embedding is served with another than its own."
    )
    fix = "Train with a frozen embedding (embed_requires_grad: false) for SGLang."
    references = ("https://github.com/vllm-project/vllm/pull/28549",)
    requires = FILES

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Warn where the config says that the embedding was trained; VAL006 compares values."""
        plan = plan_of(manifest, draft, contract)
        if isinstance(plan, Skip):
            return plan
        embedding = next(p for p in plan.parameters if p.name == EMBEDDING)
        if embedding.state is not State.TARGET:
            return Passed(message="the drafter keeps its own embedding")
        if not embedding.by:
            return Passed(message="the drafter ships none, and is served with the target's")
        if draft.raw.get("embed_requires_grad") is True:
            return (
                Problem(
                    message=(
                        f"embed_requires_grad is true, so {listed(embedding.by)} was trained; "
                        "SGLang replaces it by the target's embedding"
                    ),
                    evidence={"tensors": list(embedding.by)},
                ),
            )
        return Passed(message=f"{listed(embedding.by)} is replaced by the target's")


class KEY007(Rule):
    """A head that is borrowed from the target fits the drafter, and replaces none of its own."""

    title = "A borrowed head fits the drafter"
    why = (
        "With draft_vocab_size: null SGLang gives the drafter the target's head and embedding. A "
        "head in the file is then thrown away, and a drafter of another width than the target's "
        "cannot work with them at all."
    )
    fix = "Write the number of rows of lm_head.weight as draft_vocab_size, and export lm_head."
    references = ("https://github.com/sgl-project/sglang/issues/27829",)
    requires = FILES

    @staticmethod
    def check(manifest: Manifest, draft: DraftConfig, contract: Contract) -> Outcome:
        """Error for a head of another width; a warning for one of its own that is discarded."""
        plan = plan_of(manifest, draft, contract)
        if isinstance(plan, Skip):
            return plan
        dims = plan.dims
        if not dims.borrowed:
            return Passed(message="the drafter has a head of its own")
        if dims.hidden != dims.target_hidden:
            return (
                Problem(
                    message=(
                        f"draft_vocab_size is null, so the target's head is used, which is "
                        f"{dims.target_hidden} wide (target_hidden_size); the drafter's state is "
                        f"{dims.hidden} wide (hidden_size)"
                    ),
                    evidence={"hidden": dims.hidden, "target_hidden": dims.target_hidden},
                ),
            )
        head = next((p for p in plan.parameters if p.name == HEAD), None)
        if head is not None and head.by:
            return (
                Problem(
                    message=(
                        f"draft_vocab_size is null, so {listed(head.by)} is thrown away and the "
                        "target's head is used"
                    ),
                    evidence={"tensors": list(head.by)},
                    severity=Severity.WARNING,
                ),
            )
        return Passed(message="the target's head, which is as wide as the drafter")


RULES: tuple[type[Rule], ...] = (KEY005, KEY006, KEY007)
