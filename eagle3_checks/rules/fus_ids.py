"""FUS008 to FUS011: whether the layers captured are those the drafter was trained on.

Boundaries are Hugging Face's ``hidden_states[i]``: what enters layer i of the target.
"""

from __future__ import annotations

from eagle3_checks.contract.capture import Boundaries, Capture
from eagle3_checks.contract.version import Contract
from eagle3_checks.facts import DraftConfig, TargetConfig
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.captured import FILES, KEY, ids, resolved, source, upgrade
from eagle3_checks.rules.text import listed
from eagle3_checks.verdict import Severity

CONVENTIONS = "https://github.com/sgl-project/sglang/pull/25454"

TRAINED = {("gpt_oss", 24): (1, 11, 21), ("gpt_oss", 36): (1, 17, 33)}
"""Layer ids, counted as outputs, of trainers' own configs where these are not SGLang's default.

By the target's model_type and number of layers. Source: SpecForge, configs/gpt-oss-*-eagle3.json.
"""


class FUS008(Rule):
    """The layer ids stand where SGLang's capture reads them."""

    title = "SGLang captures the layers that config.json states"
    why = (
        "SGLang captures by the ids in eagle_config alone, from 0.4.9 on. Ids at the top level, "
        "where speculators writes them, are passed over without a word, and the target hands over "
        "its default layers."
    )
    fix = (
        "Move the ids into eagle_config.eagle_aux_hidden_state_layer_ids, in the counting of the "
        "target's class (FUS009)."
    )
    references = ("https://github.com/vllm-project/speculators/issues/753",)
    requires = FILES

    @staticmethod
    def check(draft: DraftConfig, target: TargetConfig, contract: Contract) -> Outcome:
        """Compare ids that are passed over with the default that takes their place."""
        capture = resolved(draft, target, contract)
        if isinstance(capture, Skip):
            return capture
        top, nested = draft.aux_layer_ids_top_level, draft.aux_layer_ids
        if capture.stated is not None:
            if not top or top == capture.stated or _means(top, capture):
                return Passed(message=f"{KEY}: {ids(capture.stated)}")
            return (
                Problem(
                    message=(
                        f"{KEY} is {ids(capture.stated)}, which SGLang captures by; the same key "
                        f"at the top level is {ids(top)}"
                    ),
                    evidence={"eagle_config": list(capture.stated), "top_level": list(top)},
                    fix="Keep the ids the drafter was trained with, in eagle_config alone.",
                    severity=Severity.WARNING,
                ),
            )
        passed_over = nested if nested is not None else top
        if not passed_over:
            return Skip("no layer ids are stated (FUS011)")
        place = KEY if nested is not None else "the top level's eagle_aux_hidden_state_layer_ids"
        return _passed_over(place, passed_over, capture, contract)


def _passed_over(place: str, stated: Boundaries, capture: Capture, contract: Contract) -> Outcome:
    """Judge ids that do not count: harmless where the default is one of the things they mean."""
    if meant := _means(stated, capture):
        return Passed(message=f"{place} is passed over; the default is the same, {ids(meant)}")
    entering, leaving = _readings(stated)
    return (
        Problem(
            message=(
                f"{place} is {ids(stated)}, which SGLang {contract.name} passes over: "
                f"{capture.target_class} captures its default, the boundaries "
                f"{ids(capture.boundaries)}; the ids mean {ids(entering)} (as what enters layers) "
                f"or {ids(leaving)} (as what leaves them)"
            ),
            evidence={"stated": list(stated), "captured": list(capture.boundaries)},
            fix="" if contract.reads_aux_ids else f"{upgrade({'reads_aux_ids': True})}.",
        ),
    )


def _means(stated: Boundaries, capture: Capture) -> Boundaries | None:
    """Return what ids mean in the counting in which they are what is captured, if in any."""
    captured = set(capture.boundaries)
    return next((meant for meant in _readings(stated) if set(meant) == captured), None)


def _readings(stated: Boundaries) -> tuple[Boundaries, Boundaries]:
    """Return the boundaries that ids mean: as what enters layers, and as what leaves them."""
    return stated, tuple(i + 1 for i in stated)


class FUS009(Rule):
    """The layer ids are counted as the target's class counts them."""

    title = "The layer ids follow the counting of the target's class"
    why = (
        "Two countings are in use: id i for what layer i puts out (SpecForge, ModelOpt, TorchSpec: "
        "first id 1), and id i for what enters layer i (speculators, vLLM: first id 2). SGLang's "
        "classes add one to an id always, or only where the first one is 1. With the wrong "
        "counting every state comes one layer too late, which costs acceptance and says nothing."
    )
    fix = "State the ids so that the boundaries captured are those of the training."
    references = (CONVENTIONS, "https://github.com/vllm-project/vllm/pull/43671")
    severity = Severity.WARNING
    requires = FILES

    @staticmethod
    def check(draft: DraftConfig, target: TargetConfig, contract: Contract) -> Outcome:
        """Suspect ids that look counted one way and are read the other: a heuristic."""
        capture = resolved(draft, target, contract)
        if isinstance(capture, Skip):
            return capture
        if capture.stated is None:
            return Skip("no layer ids are stated (FUS011)")
        entering, leaving = _readings(capture.stated)
        looks = _looks(draft, capture)
        if not looks or capture.wanted == (entering if looks[0] == "in" else leaving):
            return Passed(message=f"{source(capture)}, captured as {ids(capture.boundaries)}")
        meant, other = (entering, leaving) if looks[0] == "in" else (leaving, entering)
        better = _ids_for(meant, capture)
        return (
            Problem(
                message=(
                    f"{source(capture)} are captured as the boundaries {ids(capture.wanted)} by "
                    f"{capture.target_class} of SGLang {contract.name}; {looks[1]}, which suggests "
                    f"{ids(meant)} was trained on, and not {ids(other)}"
                ),
                evidence={
                    "ids": list(capture.stated),
                    "captured": list(capture.wanted),
                    "suspected": list(meant),
                },
                fix=(
                    f"If the drafter was trained on hidden_states {ids(meant)}, state {ids(better)}"
                    f" in {KEY}; if on {ids(capture.wanted)}, ignore this with its reason."
                    if better
                    else ""
                ),
            ),
        )


def _looks(draft: DraftConfig, capture: Capture) -> tuple[str, str] | None:
    """Guess how ids are counted, with the reason: "in" for what enters layers, "out" for outputs.

    None where they tell nothing: ids as 5, 17, 29 may be either.
    """
    stated, depth = capture.stated or (), capture.depth
    if {"speculators_config", "speculators_model_type"} & set(draft.raw):
        return "in", "speculators wrote this config, and it counts what enters layers"
    if stated == (2, depth // 2, depth - 3):
        return "in", f"2, n // 2, n - 3 of {depth} layers is how what enters layers is counted"
    if stated == (1, depth // 2 - 1, depth - 4):
        return "out", f"1, n // 2 - 1, n - 4 of {depth} layers is how outputs of layers are counted"
    first = stated[0] if stated else -1
    if first == 2:  # noqa: PLR2004 - the first id of those who count what enters layers
        return "in", "a first id of 2 is how what enters layers is counted"
    if first in {0, 1}:
        return "out", f"a first id of {first} is how outputs of layers are counted"
    return None


def _ids_for(meant: Boundaries, capture: Capture) -> Boundaries:
    """Return ids that this class captures as those boundaries, () where there are none."""
    for candidate in (tuple(i - 1 for i in meant), meant):
        if capture.rule.wanted(candidate, capture.depth) == meant:
            return candidate
    return ()


class FUS010(Rule):
    """CUDA graphs of the target capture the stated layers."""

    title = "CUDA graphs keep the stated layers"
    why = (
        "From 0.4.9 to 0.5.10 SGLang captures the target's CUDA graphs with its default layers and "
        "sets the stated ones afterwards. The prompt's states then come from the stated layers, "
        "those after each verification from the default ones: the drafter is fed two different "
        "things, and nothing says so."
    )
    fix = "Serve with --disable-cuda-graph."
    severity = Severity.WARNING
    requires = FILES

    @staticmethod
    def check(draft: DraftConfig, target: TargetConfig, contract: Contract) -> Outcome:
        """Compare what graphs capture with what is stated; they may be off, hence a warning."""
        capture = resolved(draft, target, contract)
        if isinstance(capture, Skip):
            return capture
        if capture.stated is None:
            return Skip("no layer ids are stated")
        if not contract.graphs_lose_ids:
            return Passed(message=f"SGLang {contract.name} sets the layers before its CUDA graphs")
        if not capture.graphs_differ:
            return Passed(message=f"the default is the same: {ids(capture.boundaries)}")
        marks = capture.prefill != capture.boundaries
        return (
            Problem(
                message=(
                    f"{source(capture)} mean the boundaries {ids(capture.boundaries)}; with CUDA "
                    f"graphs SGLang {contract.name} hands over {ids(capture.verify)} after each "
                    "verification"
                    + (f", and {ids(capture.prefill)} at the prompt" if marks else "")
                ),
                evidence={
                    "stated": list(capture.boundaries),
                    "verify": list(capture.verify),
                    "prefill": list(capture.prefill),
                },
                fix=f"{upgrade({'graphs_lose_ids': False})}, or with --disable-cuda-graph.",
            ),
        )


class FUS011(Rule):
    """The layers are stated, or the default is what was trained on."""

    title = "The captured layers are those of the training"
    why = (
        "A drafter that states no layers is fed SGLang's default, 2, n // 2 and n - 3. Trained on "
        "others, it accepts next to nothing while the server looks healthy."
    )
    fix = "State the layers the drafter was trained with in eagle_config."
    references = (
        "https://github.com/sgl-project/sglang/issues/32226",
        "https://github.com/vllm-project/vllm/pull/50170",
    )
    severity = Severity.WARNING
    requires = FILES

    @staticmethod
    def check(draft: DraftConfig, target: TargetConfig, contract: Contract) -> Outcome:
        """Warn where trainers are known to use other layers, and tell where the default is odd."""
        capture = resolved(draft, target, contract)
        if isinstance(capture, Skip):
            return capture
        if capture.stated is not None:
            return Passed(message=f"{source(capture)}, captured as {ids(capture.boundaries)}")
        if draft.aux_layer_ids is not None or draft.aux_layer_ids_top_level is not None:
            return Skip("ids are stated, and passed over (FUS008)")
        known = TRAINED.get((target.model_type or "", capture.depth))
        boundaries = tuple(i + 1 for i in known or ())
        if known and boundaries != capture.wanted:
            return (
                Problem(
                    message=(
                        f"no layer ids are stated: SGLang captures the boundaries "
                        f"{ids(capture.wanted)}; SpecForge trains drafters of "
                        f"{listed([target.model_type or ''])} with {capture.depth} layers on "
                        f"{ids(boundaries)}"
                    ),
                    evidence={"captured": list(capture.wanted), "trained": list(boundaries)},
                    fix=f"If it was trained so, state {ids(known)} in {KEY}.",
                ),
            )
        if capture.rule.default_shift:
            return (
                Problem(
                    message=(
                        f"no layer ids are stated: {capture.target_class} captures the boundaries "
                        f"{ids(capture.wanted)}, each one above the default of all other classes"
                    ),
                    evidence={"captured": list(capture.wanted)},
                    severity=Severity.INFO,
                ),
            )
        return Passed(message=f"{source(capture)}, hidden_states {ids(capture.boundaries)}")


RULES: tuple[type[Rule], ...] = (FUS008, FUS009, FUS010, FUS011)
