"""ACC: whether the target accepts what the drafter proposes."""

from __future__ import annotations

from typing import Any

from eagle3_checks.facts import Acceptance, Interval
from eagle3_checks.profile import Floors
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.text import counted, grouped, interval

SHOWN = 5
"""Contradictions told one by one; there is one for each request at worst."""


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

    @staticmethod
    def check(acceptance: Acceptance, floors: Floors) -> Outcome:
        """Judge the interval: below the floor fails, across it is inconclusive."""
        return _judge("accept length", acceptance, acceptance.accept_length, floors.accept_length)


class ACC002(Rule):
    """The accept rate reaches its floor."""

    title = "The accept rate reaches its floor"
    why = (
        "The accept rate is the share of proposed drafts that are correct, the bonus token left "
        "out. It falls where too many drafts are proposed, though the accept length may hold."
    )
    fix = "Look at the ACC001 finding first; then at the number of steps and draft tokens."
    references = ("docs/measurements.md", "https://github.com/sgl-project/sglang/pull/23530")

    @staticmethod
    def check(acceptance: Acceptance, floors: Floors) -> Outcome:
        """Judge the interval: below the floor fails, across it is inconclusive."""
        return _judge("accept rate", acceptance, acceptance.accept_rate, floors.accept_rate)


def _judge(
    what: str, acceptance: Acceptance, seen: Interval | None, floor: float | None
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
    figure = (
        f"{what} {interval(seen)}, {counted(acceptance.prompts, 'prompt')}, "
        f"{grouped(acceptance.verify_steps)} verify steps"
    )
    evidence = _evidence(acceptance, seen, floor)
    if floor is None:
        key = what.replace(" ", "_")
        return Skip(f"the profile has no floors.{key}; measured {figure}")
    if seen.low >= floor:
        return Passed(message=f"{figure}; floor {floor:.2f}", evidence=evidence)
    if seen.high < floor:
        return (Problem(message=f"{figure}; the floor is {floor:.2f}", evidence=evidence),)
    return (
        Problem(
            message=f"{figure}; the interval holds the floor, {floor:.2f}",
            evidence=evidence,
            fix="Send more prompts (prompts.limit, prompts.sets), so that the interval narrows.",
            inconclusive=True,
        ),
    )


def _evidence(acceptance: Acceptance, seen: Interval, floor: float | None) -> dict[str, Any]:
    positions = acceptance.per_position
    return {
        "value": seen.value,
        "low": seen.low,
        "high": seen.high,
        "level": seen.level,
        "floor": floor,
        "prompts": acceptance.prompts,
        "verify_steps": acceptance.verify_steps,
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


RULES: tuple[type[Rule], ...] = (ACC001, ACC002, ACC003, ACC004)
