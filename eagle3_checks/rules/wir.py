"""WIR: whether the running server feeds the drafter what it was trained on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eagle3_checks.contract.dims import Dims, dims_of
from eagle3_checks.contract.version import Contract, ContractError
from eagle3_checks.facts import CaptureSeen, DraftConfig, ForwardSeen, LoadSeen, Wiring
from eagle3_checks.profile import Speculation
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.hints import harmless
from eagle3_checks.rules.plan import FC, takes_aux
from eagle3_checks.rules.text import counted, ids, listed
from eagle3_checks.verdict import Severity

PREFILL = ("EXTEND", "MIXED", "SPLIT_PREFILL")
DRAFT_EXTEND = "DRAFT_EXTEND"
"""Start of the names of the mode after verification (DRAFT_EXTEND, DRAFT_EXTEND_V2)."""
BYPASS = "https://github.com/sgl-project/sglang/pull/21272"
_NOTHING_LOADED = "the probe saw no drafter load its weights"


class WIR000(Rule):
    """The probe inside the server reported."""

    title = "The probe reported from inside the server"
    why = "Without its facts nothing is known about the wiring, and absence must not pass."
    fix = (
        "Look for the probe's name in the server's log; it needs SGLang 0.5.11 or later (plugins), "
        "and a drafter class that it knows."
    )

    @staticmethod
    def check(wiring: Wiring) -> Outcome:
        """Report silence as inconclusive, and the probe's own faults as warnings."""
        problems = [
            Problem(
                message=f"the probe met a fault of its own: {listed([fault])}",
                evidence={"fault": fault},
                fix="Facts may be missing where it stands; please report it with the log.",
                severity=Severity.WARNING,
            )
            for fault in wiring.errors
        ]
        if not wiring.loads or not wiring.forwards:
            lacks = [n for n, v in (("load", wiring.loads), ("forward", wiring.forwards)) if not v]
            problems.append(
                Problem(
                    message=f"the probe saw no {' and no '.join(lacks)} of a drafter",
                    inconclusive=True,
                )
            )
        if problems:
            return problems
        return Passed(
            message=(
                f"{counted(len(wiring.loads), 'load')}, {counted(len(wiring.forwards), 'way')} of "
                "calling the drafter"
            )
        )


class WIR001(Rule):
    """Every tensor that the file holds reached a parameter of the served drafter."""

    title = "The server loaded every tensor"
    why = (
        "What the loader drops it drops in silence; the parameter keeps its initial value and the "
        "drafter proposes noise. Seen from inside, this holds whatever the SGLang version."
    )
    fix = "See KEY001 for the names that this version reads."

    @staticmethod
    def check(wiring: Wiring) -> Outcome:
        """Report tensors whose data went nowhere; t2d is not needed by SGLang."""
        if not wiring.loads:
            return (Problem(message=_NOTHING_LOADED, inconclusive=True),)
        problems = tuple(
            Problem(
                message=(
                    f"{load.model_class} dropped {counted(len(dropped), 'tensor')} of "
                    f"{len(load.tensors)}: {listed(dropped)}"
                ),
                evidence={"rank": load.rank, "tensors": dropped},
            )
            for load, dropped in _distinct((load, _dropped(load)) for load in wiring.loads)
        )
        if problems:
            return problems
        tensors = max(len(load.tensors) for load in wiring.loads)
        return Passed(message=f"all of {counted(tensors, 'tensor')} reached a parameter")


def _dropped(load: LoadSeen) -> list[str]:
    return [
        t.name for t in load.tensors if not t.into and "t2d" not in t.name and not harmless(t.name)
    ]


class WIR002(Rule):
    """Every parameter of the served drafter was written, or replaced by the target's."""

    title = "The server left no parameter at its initial value"
    why = (
        "SGLang does not look for parameters that received nothing. They hold uninitialised "
        "memory, or ones in a norm, while every answer stays right."
    )
    fix = "See KEY002 for what is missing from the files."

    @staticmethod
    def check(wiring: Wiring, draft: DraftConfig, contract: Contract) -> Outcome:
        """Report parameters without values, or with some: norms as warnings, others as errors."""
        if not wiring.loads:
            return (Problem(message=_NOTHING_LOADED, inconclusive=True),)
        fused = takes_aux(draft, contract)
        problems: list[Problem] = []
        for load, names in _distinct((load, _unwritten(load, fused)) for load in wiring.loads):
            norms = [n for n in names if _is_norm(n)]
            weights = [n for n in names if not _is_norm(n)]
            for found, values, severity in (
                (weights, "random initial values", Severity.ERROR),
                (norms, "their initial ones", Severity.WARNING),
            ):
                if found:
                    problems.append(
                        Problem(
                            message=(
                                f"{load.model_class} serves {counted(len(found), 'parameter')} "
                                f"with {values}: {listed(found, 8)}"
                            ),
                            evidence={"rank": load.rank, "parameters": found},
                            severity=severity,
                        )
                    )
        for load, names in _distinct((load, _partly(load, fused)) for load in wiring.loads):
            problems.append(
                Problem(
                    message=(
                        f"{load.model_class} serves {counted(len(names), 'parameter')} of which "
                        f"tensors filled a part, the rest being random: {listed(names, 8)}"
                    ),
                    evidence={"rank": load.rank, "parameters": names},
                )
            )
        if problems:
            return problems
        shared = sorted({name for load in wiring.loads for name in load.shared})
        return Passed(
            message="every parameter was written"
            + (f"; the target's: {listed(shared)}" if shared else "")
        )


def _unwritten(load: LoadSeen, fused: bool) -> list[str]:  # noqa: FBT001 - a private helper
    return [
        name
        for name in load.unwritten
        if name not in load.shared and not _is_idle(name) and (fused or not name.startswith(FC))
    ]


def _partly(load: LoadSeen, fused: bool) -> list[str]:  # noqa: FBT001 - a private helper
    """Return parameters that are filled in part; vocabularies end in rows that pad them."""
    return [
        name
        for name in load.partly
        if name not in load.shared
        and not name.startswith(("lm_head.", "model.embed_tokens."))
        and (fused or not name.startswith(FC))
    ]


def _is_norm(name: str) -> bool:
    return "norm" in name.removesuffix(".weight").rpartition(".")[2] or ".fc_norm." in name


def _is_idle(name: str) -> bool:
    """Whether the forward pass never reads it: later layers have no embedding to norm."""
    return name.endswith(".input_layernorm.weight") and not name.startswith(
        ("model.layers.0.", "model.midlayer.")
    )


def _distinct(
    seen: Iterable[tuple[LoadSeen, list[str]]],
) -> Iterator[tuple[LoadSeen, list[str]]]:
    """Leave out ranks that found the same, and those that found nothing."""
    known: set[tuple[str, ...]] = set()
    for load, names in seen:
        key = (load.model_class, *names)
        if names and key not in known:
            known.add(key)
            yield load, names


class WIR003(Rule):
    """fc ran on all aux states, at the prompt and after each verification."""

    title = "fc fuses all aux states in prefill and draft-extend"
    why = (
        "SGLang runs fc only where the incoming width differs from the embedding's. Handed a "
        "single state, the drafter skips it without a word: the server starts, answers rightly, "
        "and is slower than without speculation. While drafting (DECODE) fc rests by design."
    )
    fix = "Serve with --speculative-algorithm EAGLE3, and check which layers the target captures."
    references = (BYPASS,)

    @staticmethod
    def check(
        wiring: Wiring, draft: DraftConfig, contract: Contract, speculation: Speculation
    ) -> Outcome:
        """Judge prefill and draft-extend alone; a mode that was not seen is inconclusive."""
        if not takes_aux(draft, contract):
            return Skip("eagle_config.use_aux_hidden_state is false: fc is not meant to run")
        dims = _dims(draft, contract)
        seen = {
            "prefill": [f for f in wiring.forwards if f.mode in PREFILL],
            "draft-extend": [f for f in wiring.forwards if f.mode.startswith(DRAFT_EXTEND)],
        }
        wrong = {
            mode: bad
            for mode, facts in seen.items()
            if (bad := [f for f in facts if _bad(f, dims)])
        }
        if wrong:
            return tuple(_bypassed(wrong, dims, wiring.captures, speculation))
        unseen = [mode for mode, facts in seen.items() if not facts]
        if unseen:
            modes = sorted({f.mode for f in wiring.forwards})
            return (
                Problem(
                    message=(
                        f"the drafter was not seen in {' or '.join(unseen)} (modes seen: "
                        f"{listed(modes) or 'none'}), so whether fc runs there is not known"
                    ),
                    fix="Send requests while the probe looks; without CUDA graphs it sees more.",
                    inconclusive=True,
                ),
            )
        facts = [f for found in seen.values() for f in found]
        width = facts[0].fc_in
        note = " (seen while CUDA graphs were captured)" if all(f.capturing for f in facts) else ""
        formula = f" = {dims.formula}" if dims else ""
        return Passed(
            message=f"fc took {width}{formula} in prefill and draft-extend{note}",
            evidence={"fc_in": width},
        )


def _dims(draft: DraftConfig, contract: Contract) -> Dims | None:
    try:
        return dims_of(draft, contract)
    except ContractError:
        return None


def _bad(seen: ForwardSeen, dims: Dims | None) -> bool:
    return not seen.fc_ran or (dims is not None and seen.fc_in != dims.fused)


def _bypassed(
    wrong: dict[str, list[ForwardSeen]],
    dims: Dims | None,
    captures: tuple[CaptureSeen, ...],
    speculation: Speculation,
) -> Iterator[Problem]:
    cause, fix = _cause(dims, captures, speculation)
    wanted = f"{dims.fused} = {dims.formula}" if dims else "all aux states"
    skipped = {m: f for m, found in wrong.items() if (f := [x for x in found if not x.fc_ran])}
    if skipped:
        first = next(iter(skipped.values()))[0]
        test = (
            "the shape test hidden == embedding skipped the fusion layer"
            if first.width == first.embed_width
            else f"the embedding is {first.embed_width} wide"
        )
        yield Problem(
            message=(
                f"fc never ran in {' and '.join(skipped)}: the drafter received {first.width} "
                f"instead of {wanted}; {test}{cause}"
            ),
            evidence={"width": first.width, "wanted": dims.fused if dims else None},
            fix=fix,
        )
    odd = [(m, x) for m, found in wrong.items() for x in found if x.fc_ran]
    for mode, fact in odd[:1]:
        yield Problem(
            message=f"fc ran in {mode} on {fact.fc_in} instead of {wanted}{cause}",
            evidence={"fc_in": fact.fc_in, "wanted": dims.fused if dims else None},
            fix=fix,
        )


def _cause(
    dims: Dims | None, captures: tuple[CaptureSeen, ...], speculation: Speculation
) -> tuple[str, str]:
    """Say what the flags or the captured layers explain, and what to do then."""
    if speculation.algorithm.upper() != "EAGLE3":
        flag = f"speculation.algorithm = {speculation.algorithm}"
        cause = f"; the cause is the flag {flag}, under which the target captures no aux states"
        fix = "Serve with --speculative-algorithm EAGLE3 (speculation.algorithm in the profile)."
        return cause, fix
    for capture in captures:
        distinct = len(set(capture.layers))
        if dims and distinct < dims.aux:
            cause = (
                f"; {capture.target_class} was told to capture the layers {ids(capture.layers)}, "
                f"which are {distinct} of the {dims.aux} that fc takes"
            )
            fix = (
                "Use a target of 7 layers or more, or state distinct layers in "
                "eagle_config.eagle_aux_hidden_state_layer_ids."
            )
            return cause, fix
    return "", ""


RULES: tuple[type[Rule], ...] = (WIR000, WIR001, WIR002, WIR003)
