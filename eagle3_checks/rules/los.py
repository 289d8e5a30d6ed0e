"""LOS: whether speculation changes what is answered."""

from __future__ import annotations

from collections.abc import Mapping

from eagle3_checks.facts import Comparison, Divergence, Parity
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.text import counted, listed

TIES: Mapping[str, float] = {"float32": 0.001, "float16": 0.05, "bfloat16": 0.3}
"""Margins, in nats, up to which two tokens tie: about two units in the last place of a logit
between 16 and 32, in half precision; float32 sums differ by far less."""
COARSEST = "bfloat16"
"""Taken where the type is not known."""
ZERO_RUN = 8
"""Tokens 0 in a row that are garbage: models count their padding or a rare sign from 0."""
DOCS = "docs/parity.md"
GREEDY = "https://github.com/sgl-project/sglang/pull/14063"


class LOS000(Rule):
    """Every request by which losslessness was looked at was answered."""

    title = "Every request was answered while losslessness was looked at"
    why = "A prompt without an answer cannot be compared, and what fails here fails for users too."
    fix = "Look at the server's log for the time of the failures, and run again."
    references = (DOCS,)

    @staticmethod
    def check(parity: Parity) -> Outcome:
        """Report failed requests as inconclusive."""
        if not parity.failures:
            return ()
        return (
            Problem(
                message=f"{counted(len(parity.failures), 'request')} failed: "
                f"{listed(parity.failures, 2)}",
                evidence={"failures": list(parity.failures)},
                inconclusive=True,
            ),
        )


class LOS001(Rule):
    """Each token of a greedy answer is the one that the target chooses by itself."""

    title = "Greedy answers are the target's own"
    why = (
        "Speculation may change how quickly an answer comes, never the answer. Prefill over prompt "
        "and answer shows the target's own choice at every place; a token that is another one was "
        "accepted wrongly, or verified over wrong keys and values."
    )
    fix = (
        "Serve the same prompt without --speculative-algorithm: where it then answers otherwise, "
        "report the divergence to SGLang; try another attention backend meanwhile."
    )
    references = (DOCS, GREEDY)
    requires = ("SRV002",)

    @staticmethod
    def check(parity: Parity) -> Outcome:
        """Report tokens that the target puts behind another by more than a tie."""
        return judged(
            parity.scored, parity, "from the target's choice", "are the target's own choice"
        )


def judged(seen: Comparison, parity: Parity, between: str, alike: str) -> Outcome:
    """Judge a comparison: divergences beyond a tie are errors, such of unknown margin are doubt."""
    if seen.missing:
        return (Problem(message=f"nothing was compared: {seen.missing}", inconclusive=True),)
    tie = TIES.get(parity.dtype, TIES[COARSEST])
    real = [d for d in seen.divergences if (d.floor if d.margin is None else d.margin) > tie]
    unknown = [d for d in seen.divergences if d not in real and d.margin is None]
    known = parity.dtype in TIES
    dtype = parity.dtype if known else f"{parity.dtype or 'an unknown type'}, as in {COARSEST}"
    stated = f"up to {tie:g} nats count as a tie in {dtype}"
    for found, doubt in ((real, False), (unknown, True)):
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            return (
                Problem(
                    message=f"{counted(len(found), 'divergence')} in "
                    f"{counted(seen.tokens, 'token')} {between}: "
                    f"{_divergence(found[0])}{more}; {stated}",
                    evidence={"divergences": [_evidence(d) for d in found[:20]], "tie": tie},
                    inconclusive=doubt,
                ),
            )
    ties = len(seen.divergences)
    widest = max((d.margin or 0.0 for d in seen.divergences), default=0.0)
    told = f"; {counted(ties, 'tie')}, of up to {widest:.2g} nats ({stated})" if ties else ""
    answers = counted(seen.prompts, "answer")
    return Passed(
        message=f"{counted(seen.tokens, 'token')} of {answers} {alike}{told}",
        evidence={"tokens": seen.tokens, "prompts": seen.prompts, "ties": ties},
    )


def _divergence(seen: Divergence) -> str:
    margin = f"{seen.margin:.3g} nats" if seen.margin is not None else f"over {seen.floor:.3g} nats"
    if seen.margin is None and not seen.floor:
        margin = "an unknown margin"
    return (
        f"{listed([seen.prompt_id])} at output token {seen.index}: {_token(seen.token)} instead of "
        f"{_token(seen.other)}, apart by {margin}"
    )


def _token(token: int) -> str:
    return "the end" if token < 0 else str(token)


def _evidence(seen: Divergence) -> dict[str, object]:
    return {
        "prompt": seen.prompt_id,
        "index": seen.index,
        "token": seen.token,
        "other": seen.other,
        "margin": seen.margin,
    }


class LOS002(Rule):
    """The answers are those of a server that does not speculate."""

    title = "The answers are those of a server without speculation"
    why = (
        "The target alone is the measure of what must be answered. This needs a second server, and "
        "also finds what prefill on the same one cannot: keys and values that went wrong before."
    )
    fix = "Look at LOS001 and LOS003 first: a target that answers by chance differs here too."
    references = (DOCS,)
    requires = ("SRV002",)

    @staticmethod
    def check(parity: Parity, against_plain: Comparison) -> Outcome:
        """Compare the first answers, token by token."""
        return judged(
            against_plain,
            parity,
            "from a server without speculation",
            "are the same without speculation",
        )


class LOS003(Rule):
    """The same requests twice bring the same answers."""

    title = "Two identical runs answer alike"
    why = (
        "Greedy decoding leaves nothing to chance. Answers that differ from run to run come from "
        "memory that is read before it is written, or from kernels whose sums depend on timing: "
        "no other comparison can be trusted then."
    )
    fix = (
        "Compare with --enable-deterministic-inference; without it too small a margin may flip. "
        "Where the margin is large, look for a race: try another attention backend."
    )
    references = (DOCS,)
    requires = ("SRV002",)

    @staticmethod
    def check(parity: Parity) -> Outcome:
        """Report the first difference of each prompt beyond a tie."""
        return judged(parity.again, parity, "between two runs", "are the same in both runs")


class LOS004(Rule):
    """A request answers the same alone and in company."""

    title = "Answers do not depend on what else is served"
    why = (
        "Requests of one batch share kernels and page tables, never tokens. An answer that changes "
        "in company was verified against another request's state, or padded wrongly."
    )
    fix = "Look for the smallest batch that shows it (parity.prompts), and report it to SGLang."
    references = (DOCS,)
    requires = ("SRV002",)

    @staticmethod
    def check(parity: Parity) -> Outcome:
        """Compare one at a time with all at once."""
        if parity.concurrency < 2:  # noqa: PLR2004 - alone is not in company
            return Skip("a single prompt has no company (parity.prompts)")
        at = f"at concurrency {parity.concurrency}"
        return judged(
            parity.together, parity, f"between alone and {at}", f"are the same alone and {at}"
        )


class LOS005(Rule):
    """A cached prefix changes no token."""

    title = "The prefix cache changes no answer"
    why = (
        "A prefix that is taken from the cache brings the target's keys and values, and the "
        "drafter's, which also depend on the token after each. Pages mixed up between the two, or "
        "evicted while in use, change what follows."
    )
    fix = "Serve with --disable-radix-cache: where that helps, report it to SGLang."
    references = (DOCS, "https://github.com/sgl-project/sglang/pull/10846")
    requires = ("SRV002",)

    @staticmethod
    def check(parity: Parity) -> Outcome:
        """Compare prompts that were new with the same from the cache."""
        if not parity.cached_tokens:
            return Skip(parity.cached.missing or "no prompt token came from the prefix cache")
        prefix = f"with {counted(parity.cached_tokens, 'prompt token')} from the cache"
        return judged(parity.cached, parity, f"from before, {prefix}", f"are the same {prefix}")


class LOS006(Rule):
    """No answer is token 0 over and over."""

    title = "No answer is made of token 0"
    why = (
        "Logits that are not numbers, buffers that were never written, and a broken verification "
        "all end in token 0, which many tokenizers print as an exclamation mark."
    )
    fix = "Look for NaN (SGLANG_ENABLE_NAN_LOGITS_CHECK=1), and try another attention backend."
    references = (DOCS, GREEDY)
    requires = ("SRV002",)

    @staticmethod
    def check(parity: Parity) -> Outcome:
        """Report runs of eight or more."""
        if not parity.scored.tokens:
            return Skip("no answer was compared")
        found = [run for run in parity.zero_runs if run.length >= ZERO_RUN]
        if not found:
            return ()
        worst = max(found, key=lambda run: run.length)
        return (
            Problem(
                message=f"{listed([worst.prompt_id])} has {worst.length} tokens 0 in a row from "
                f"output token {worst.index} on; {counted(len(found), 'such run')} in all",
                evidence={"runs": [[r.prompt_id, r.index, r.length] for r in found[:20]]},
            ),
        )


RULES: tuple[type[Rule], ...] = (LOS000, LOS001, LOS002, LOS003, LOS004, LOS005, LOS006)
