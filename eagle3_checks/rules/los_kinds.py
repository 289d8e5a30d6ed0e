"""LOS: kinds of requests that must work under speculation as they do without, and loops."""

from __future__ import annotations

from eagle3_checks.facts import Looping, Parity
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.los import DOCS
from eagle3_checks.rules.text import counted, listed
from eagle3_checks.verdict import Severity

LOOPING_SHARE = 0.25
"""Share of looping text above which the accept length may be the loops'."""
SGLANG = "https://github.com/sgl-project/sglang/"
_FIX = "Send the same request without speculation: where it works, report the difference to SGLang."


class LOS007(Rule):
    """The text by which acceptance was measured is no loop."""

    title = "Acceptance was measured on text that does not loop"
    severity = Severity.WARNING
    why = (
        "A target that repeats itself is easy to draft for: loops carry the accept length up, and "
        "hide a drafter that fails on everything else."
    )
    fix = (
        "Use prompts in the target's own chat template (prompts.chat_template), shorter answers, "
        "or other prompts; read some answers."
    )
    references = (DOCS, "https://github.com/vllm-project/vllm/pull/44487")
    requires = ("SRV002",)

    @staticmethod
    def check(looping: Looping) -> Outcome:
        """Warn above a quarter of the text, with the accept length of the rest."""
        if not looping.characters:
            return Skip("no text was answered")
        share = looping.looping / looping.characters
        answers = counted(looping.prompts, "answer")
        told = f"{100 * share:.0f} % of the text of {answers} repeats itself"
        if share <= LOOPING_SHARE:
            return Passed(message=told, evidence={"share": share})
        figures = ""
        if looping.accept_length is not None and looping.accept_length_all is not None:
            figures = (
                f"; the accept length is {looping.accept_length_all:.2f} over all answers, "
                f"{looping.accept_length:.2f} without the {len(looping.worst)} that mostly loop"
            )
        return (
            Problem(
                message=told + figures,
                evidence={"share": share, "prompts": list(looping.worst[:20])},
            ),
        )


def answered(parity: Parity, name: str) -> Outcome:
    """Judge the one request of a kind."""
    kind = next((k for k in parity.kinds if k.kind == name), None)
    if kind is None:
        return Skip("no request of this kind was sent")
    if kind.problem:
        gone = "" if kind.survived else "; the server did not outlive it"
        return (
            Problem(
                message=f"asked for {kind.asked}: {kind.problem}{gone}",
                evidence={"kind": name, "survived": kind.survived},
            ),
        )
    if kind.refused:
        return Skip(f"the server refuses it: {listed([kind.refused])}")
    if kind.open:
        return (Problem(message=f"asked for {kind.asked}: {kind.open}", inconclusive=True),)
    return Passed(message=f"{kind.asked}, and the server answers on")


class LOS010(Rule):
    """Log probabilities come for every token."""

    title = "Log probabilities come with each token"
    why = (
        "Several tokens are accepted in one step, and their log probabilities were lost or made "
        "the server crash in more than one release."
    )
    fix = _FIX
    references = (f"{SGLANG}issues/17349", f"{SGLANG}pull/20555")
    requires = ("SRV002",)

    @staticmethod
    def check(parity: Parity) -> Outcome:
        """Judge one request with return_logprob."""
        return answered(parity, "logprobs")


class LOS011(Rule):
    """A JSON schema holds, and ends the answer."""

    title = "A JSON schema holds under speculation"
    why = (
        "Drafts break the grammar that masks the target's choice: answers outside the schema, "
        "grammars that never end, and schedulers that die with them have all been seen."
    )
    fix = _FIX
    references = (f"{SGLANG}pull/21723", f"{SGLANG}issues/24283")
    requires = ("SRV002",)

    @staticmethod
    def check(parity: Parity) -> Outcome:
        """Judge one request with a schema of two sentences."""
        return answered(parity, "json")


class LOS012(Rule):
    """A stop string ends the answer where it stands."""

    title = "A stop string ends the answer"
    why = "A step may accept tokens on both sides of the stop string; those behind it must go."
    fix = _FIX
    requires = ("SRV002",)

    @staticmethod
    def check(parity: Parity) -> Outcome:
        """Judge one request with a stop string out of a known answer."""
        return answered(parity, "stop")


class LOS013(Rule):
    """An aborted request ends, and the server goes on."""

    title = "A request can be aborted"
    why = (
        "A request that ends between drafting and verification leaves pages of two caches behind; "
        "where one is forgotten, the server runs out of memory or stops."
    )
    fix = _FIX
    requires = ("SRV002",)

    @staticmethod
    def check(parity: Parity) -> Outcome:
        """Judge one request that is aborted after its first token."""
        return answered(parity, "abort")


class LOS014(Rule):
    """Answers of one, two and three tokens are as long as asked."""

    title = "Very short answers have the length asked for"
    why = "The first token comes from prefill; a step of several tokens may run over the limit."
    fix = _FIX
    requires = ("SRV002",)

    @staticmethod
    def check(parity: Parity) -> Outcome:
        """Judge three requests, shorter than one step."""
        return answered(parity, "short")


class LOS015(Rule):
    """Hidden states come for every token, and for no other."""

    title = "Hidden states come with each token"
    why = (
        "Rows of rejected drafts must be left out and those of accepted ones kept: fewer rows than "
        "tokens, and rows of other requests, have been seen."
    )
    fix = _FIX
    references = (f"{SGLANG}issues/26163",)
    requires = ("SRV002",)

    @staticmethod
    def check(parity: Parity) -> Outcome:
        """Judge one request with return_hidden_states."""
        return answered(parity, "hidden")


RULES: tuple[type[Rule], ...] = (LOS007, LOS010, LOS011, LOS012, LOS013, LOS014, LOS015)
