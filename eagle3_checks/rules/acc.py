"""ACC: whether the target accepts what the drafter proposes."""

from __future__ import annotations

from typing import Any

from eagle3_checks.facts import Acceptance, BaselineSeen, Interval
from eagle3_checks.profile import Floors, Speculation
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.text import counted, grouped, interval, listed
from eagle3_checks.verdict import Judgement, Judgements
from eagle3_checks.verdict import Outcome as Known

SHOWN = 5
"""Contradictions told one by one; there is one for each request at worst."""
CEILING_SHARE = 0.98


class ACC001(Rule):
    """The accept length reaches its floor."""

    title = "The accept length reaches its floor"
    why = (
        "The accept length is the number of tokens that each verify step brings, the bonus token "
        "included: 1.0 means that no proposal is ever accepted, and that speculation only costs "
        "time. No answer shows it, since verification keeps every answer right."
    )
    fix = (
        "Look at the KEY, FUS, VOC and WIR findings first: they name wiring that explains a low "
        "figure. Where all pass, the drafter needs training on such prompts."
    )
    references = ("docs/measurements.md",)
    requires = ("SRV002",)

    @staticmethod
    def check(acceptance: Acceptance, floors: Floors, judgements: Judgements) -> Outcome:
        """Judge the repeated interval: below the floor fails, across it is inconclusive."""
        seen, judged = acceptance.accept_length, judgements.accept_length
        return _judge("accept length", acceptance, seen, floors.accept_length, judged)


class ACC002(Rule):
    """The accept rate reaches its floor."""

    title = "The accept rate reaches its floor"
    why = (
        "The accept rate is the share of proposed drafts that are correct, the bonus token left "
        "out. It falls where too many drafts are proposed, though the accept length may hold."
    )
    fix = "Look at the ACC001 finding first; then at the number of steps and draft tokens."
    references = ("docs/measurements.md", "https://github.com/sgl-project/sglang/pull/23530")
    requires = ("SRV002",)

    @staticmethod
    def check(acceptance: Acceptance, floors: Floors, judgements: Judgements) -> Outcome:
        """Judge the repeated interval: below the floor fails, across it is inconclusive."""
        seen, judged = acceptance.accept_rate, judgements.accept_rate
        return _judge("accept rate", acceptance, seen, floors.accept_rate, judged)


def _judge(
    what: str,
    acceptance: Acceptance,
    seen: Interval | None,
    floor: float | None,
    judged: Judgement | None,
) -> Outcome:
    if acceptance.missing or seen is None or not acceptance.verify_steps:
        reason = acceptance.missing or "the server reported no verify steps"
        return (
            Problem(
                message=f"no {what}: {reason}",
                fix="Check that the server speculates (/server_info) and reports its counts.",
                inconclusive=True,
            ),
        )
    if floor is None:
        key = what.replace(" ", "_")
        return Skip(f"the profile has no floors.{key}; measured {what} {_figure(seen, acceptance)}")
    if judged is None:
        return (
            Problem(
                message=f"{what} {_figure(seen, acceptance)}: too few prompts to judge by",
                fix="Send more prompts (prompts.limit, prompts.sets).",
                inconclusive=True,
            ),
        )
    figure = f"{what} {interval(judged.interval)}, {_basis(judged)}"
    evidence = _evidence(acceptance, judged)
    if judged.outcome is Known.REACHED:
        return Passed(message=f"{figure}; floor {floor:.2f}", evidence=evidence)
    if judged.outcome is Known.MISSED:
        return (Problem(message=f"{figure}; the floor is {floor:.2f}", evidence=evidence),)
    return (
        Problem(
            message=(
                f"{figure}; the interval holds the floor, {floor:.2f}. This run could tell "
                f"{judged.detectable:.2f} from it"
            ),
            evidence=evidence,
            fix="Send more prompts (prompts.limit, prompts.sets), so that the interval narrows.",
            inconclusive=True,
        ),
    )


def _figure(seen: Interval, acceptance: Acceptance) -> str:
    prompts, steps = counted(acceptance.prompts, "prompt"), grouped(acceptance.verify_steps)
    return f"{interval(seen)}, {prompts}, {steps} verify steps"


def _basis(judged: Judgement) -> str:
    """Say what a verdict rests on, as in ``12 of 80 prompts, 940 verify steps``."""
    prompts = counted(judged.planned, "prompt")
    if judged.prompts < judged.planned:
        prompts = f"{judged.prompts} of {prompts}"
    return f"{prompts}, {grouped(judged.verify_steps)} verify steps"


def _evidence(acceptance: Acceptance, judged: Judgement) -> dict[str, Any]:
    positions = acceptance.per_position
    return {
        "value": judged.value,
        "low": judged.interval.low,
        "high": judged.interval.high,
        "level": judged.interval.level,
        "floor": judged.bound,
        "prompts": judged.prompts,
        "planned": judged.planned,
        "looks": judged.looks,
        "detectable": judged.detectable,
        "verify_steps": judged.verify_steps,
        "correct_drafts": acceptance.correct_drafts,
        "proposed_drafts": acceptance.proposed_drafts,
        "per_position": None if positions is None else list(positions),
    }


class ACC003(Rule):
    """The server's counts agree with each other."""

    title = "The server's acceptance counts agree with each other"
    why = (
        "Proposed drafts are verify steps x (draft tokens - 1), and the histogram sums to both "
        "counts. Where that does not hold, the flags are not those of the profile, or the counts "
        "are wrong, and no figure made from them can be trusted."
    )
    fix = "Compare the server's flags with the profile (SRV001), and check its SGLang version."
    references = ("https://github.com/sgl-project/sglang/pull/33518",)

    @staticmethod
    def check(acceptance: Acceptance) -> Outcome:
        """Report the identities that did not hold."""
        if not acceptance.verify_steps:
            return Skip("no verify steps were counted")
        found = acceptance.contradictions
        if not found:
            return Passed(message=f"over {grouped(acceptance.verify_steps)} verify steps")
        more = len(found) - SHOWN
        return (
            Problem(
                message=(
                    f"{counted(len(found), 'contradiction')}: {'; '.join(found[:SHOWN])}"
                    + (f"; and {more} more" if more > 0 else "")
                ),
                evidence={"contradictions": list(found)},
            ),
        )


class ACC004(Rule):
    """Every prompt was answered."""

    title = "Every prompt was answered"
    why = (
        "A server that fails under some prompts is not ready, and figures over the rest are not "
        "those of the prompts asked for. Failed requests are never sent again."
    )
    fix = "Look at the server's log for the time of the failures."

    @staticmethod
    def check(acceptance: Acceptance) -> Outcome:
        """Report failed requests; none sent is no success."""
        if not acceptance.prompts and not acceptance.failed_requests:
            return (Problem(message="no prompt was sent", inconclusive=True),)
        if not acceptance.failed_requests:
            return Passed(message=f"all of {counted(acceptance.prompts, 'prompt')}")
        asked = acceptance.prompts + acceptance.failed_requests
        return (
            Problem(
                message=(
                    f"{acceptance.failed_requests} of {counted(asked, 'request')} failed while "
                    "acceptance was measured"
                ),
                evidence={"failed": acceptance.failed_requests, "answered": acceptance.prompts},
                inconclusive=True,
            ),
        )


class ACC005(Rule):
    """The accept length is that of the baseline, or better."""

    title = "The accept length is no worse than the baseline's"
    why = (
        "A floor lets a drafter lose much before it is crossed. Held against a recorded run of the "
        "same target, drafter, flags and prompts, paired by prompt, a small loss shows: an upgrade "
        "or a new kernel that takes acceptance away."
    )
    fix = (
        "Compare the two runs' SGLang versions, flags and drafters. Where the loss is wanted, "
        "--eagle3-update-baseline makes this run the baseline."
    )
    references = ("docs/measurements.md",)
    requires = ("SRV002",)

    @staticmethod
    def check(acceptance: Acceptance, baseline: BaselineSeen, judgements: Judgements) -> Outcome:
        """Judge the paired difference: a loss beyond the margin fails."""
        if baseline.state == "none":
            return (
                Problem(
                    message=f"no baseline: {baseline.problem}",
                    fix="Name a folder that can be written, or a file of a recorded run; where "
                    "the run is not whole, see the other ACC findings.",
                    inconclusive=True,
                ),
            )
        unlike = listed(baseline.differences, limit=7)
        if baseline.state in ("written", "updated"):
            near = f"; the nearest other one, {baseline.nearest}, differs in {unlike}"
            return Passed(
                message=f"nothing to compare with: this run was recorded as {baseline.path}"
                + (near if baseline.nearest else ""),
                evidence={"baseline": baseline.path},
            )
        judged = judgements.baseline
        if judged is None:
            return (
                Problem(
                    message=(
                        f"{counted(baseline.pairs, 'prompt')} of {acceptance.prompts} are in the "
                        f"baseline {baseline.path}: too few to compare"
                    ),
                    fix="Record a baseline over these prompts.",
                    inconclusive=True,
                ),
            )
        return _compare(baseline, judged, f"; compared although {unlike}" if unlike else "")


def _compare(baseline: BaselineSeen, judged: Judgement, unlike: str) -> Outcome:
    seen = judged.interval
    figure = (
        f"accept length {seen.value:+.1%} [{seen.low:+.1%}, {seen.high:+.1%}] against "
        f"{baseline.accept_length or 0:.2f} of {baseline.recorded}, {_basis(judged)}"
    ).replace("%", " %")
    margin = f"a loss of {baseline.margin:.0%} is allowed".replace("%", " %")
    evidence = {
        "change": seen.value,
        "low": seen.low,
        "high": seen.high,
        "margin": baseline.margin,
        "baseline": baseline.path,
        "differences": list(baseline.differences),
        "pairs": judged.prompts,
        "detectable": judged.detectable,
    }
    if judged.outcome is Known.REACHED:
        return Passed(message=f"{figure}; {margin}{unlike}", evidence=evidence)
    if judged.outcome is Known.MISSED:
        return (Problem(message=f"{figure}; {margin}{unlike}", evidence=evidence),)
    told = f"{judged.detectable:.1%}".replace("%", " %")
    return (
        Problem(
            message=f"{figure}; {margin}: too close to call, this run could tell {told}{unlike}",
            evidence=evidence,
            fix="Send more prompts (prompts.limit, prompts.sets), and record them as the baseline.",
            inconclusive=True,
        ),
    )


class ACC006(Rule):
    """The accept length is one that real text allows."""

    title = "The accept length is one that real text allows"
    why = (
        "Free text is never predicted almost without fault. An accept length at its ceiling comes "
        "from repeated output, from prompts the drafter has learnt by heart, or from acceptance "
        "that is simulated."
    )
    fix = (
        "Read some answers: a target that repeats itself is easy to draft for. Check that no "
        "SGLANG_SIMULATE_ACC_* is set (SRV002), and measure on other prompts."
    )
    references = ("docs/measurements.md",)
    requires = ("SRV002",)

    @staticmethod
    def check(acceptance: Acceptance, speculation: Speculation) -> Outcome:
        """Compare with steps + 1."""
        seen = acceptance.accept_length
        if seen is None:
            return Skip("no accept length was measured")
        ceiling = speculation.max_accept_length
        if seen.value < CEILING_SHARE * ceiling:
            return Passed(message=f"{seen.value:.2f} of at most {ceiling}")
        return (
            Problem(
                message=f"accept length {seen.value:.2f} is within 2 % of its ceiling, {ceiling}",
                evidence={"value": seen.value, "ceiling": ceiling},
                inconclusive=True,
            ),
        )


RULES: tuple[type[Rule], ...] = (ACC001, ACC002, ACC003, ACC004, ACC005, ACC006)
