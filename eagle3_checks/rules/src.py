"""SRC: whether the files can be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eagle3_checks.checkpoint.files import shown
from eagle3_checks.contract.version import Contract, known_versions
from eagle3_checks.facts import DraftConfig, FileFault, FileProblem, Manifest, TargetConfig
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.text import counted
from eagle3_checks.verdict import Severity

SAFETENSORS = "https://huggingface.co/docs/safetensors/index"


def told(problems: Iterable[FileProblem]) -> Iterator[Problem]:
    """Yield a rule's problem for each of a reader's."""
    for fault in problems:
        yield Problem(
            message=f"{fault.file}: {fault.detail}",
            evidence={"file": fault.file, "fault": fault.fault.value},
            fix=fault.fix,
        )


class SRC001(Rule):
    """Every weight file has a whole, consistent header and all of its data."""

    title = "Weight files are complete and readable"
    why = (
        "A truncated shard, an index that names files which are not there, or a header that "
        "contradicts itself stops the server minutes after it was started, or loads the wrong "
        "copy of a tensor."
    )
    fix = "Copy or download the files again, and compare their sizes with the source."
    references = (SAFETENSORS,)

    @staticmethod
    def check(manifest: Manifest) -> Outcome:
        """Report each fault that the headers' reader met."""
        faults = [p for p in manifest.problems if p.fault is not FileFault.PICKLE_ONLY]
        if faults:
            return tuple(told(faults))
        if not manifest.files:
            return Skip("there is no safetensors file to read (SRC004)")
        tensors = counted(len(manifest.tensors), "tensor")
        return Passed(
            message=f"{tensors} in {counted(len(manifest.files), 'file')}",
            evidence={"files": list(manifest.files), "tensors": len(manifest.tensors)},
        )


class SRC002(Rule):
    """The drafter's config.json can be read, and its fields have the types SGLang expects."""

    title = "The drafter's config.json is readable"
    why = (
        "SGLang takes the drafter's class and every size from it. A field of the wrong type, such "
        'as "hidden_size": "7168", stops the server or is replaced by a default.'
    )
    fix = "Correct config.json; every field is a plain JSON value."

    @staticmethod
    def check(draft: DraftConfig) -> Outcome:
        """Report each fault that the config's reader met."""
        return tuple(told(draft.problems))


class SRC003(Rule):
    """The target's config.json can be read."""

    title = "The target's config.json is readable"
    why = "Widths, vocabulary and context of the drafter are judged against the target's."
    fix = "Give the target's own folder, with its config.json."

    @staticmethod
    def check(target: TargetConfig) -> Outcome:
        """Report each fault that the config's reader met."""
        return tuple(told(target.problems))


class SRC004(Rule):
    """The weights are there as safetensors; pickle files are programs and are never opened."""

    title = "Weights are safetensors, not pickle"
    why = (
        "Loading a .bin or .pt file runs the program in it. No check of this suite opens one, so "
        "nothing can be said about such a drafter, and SGLang falls back to it only where there "
        "is no safetensors file."
    )
    fix = "Convert the weights to model.safetensors once, where you trust their source."
    references = (SAFETENSORS,)

    @staticmethod
    def check(manifest: Manifest) -> Outcome:
        """Report weights that are in pickle form alone."""
        return tuple(told(p for p in manifest.problems if p.fault is FileFault.PICKLE_ONLY))


class SRC005(Rule):
    """The SGLang version is one that this suite has data for."""

    title = "The SGLang version is known"
    severity = Severity.WARNING
    why = (
        "What a version does with a drafter is read from its source, version by version. One that "
        "is newer than all known ones, or lies between them, is judged as the nearest older one, "
        "which may differ."
    )
    fix = (
        "Use a version of eagle3-checks that knows it, or derive its data: python -m "
        "eagle3_checks.contract.derive VERSION."
    )

    @staticmethod
    def check(contract: Contract) -> Outcome:
        """Say which version stands in for which."""
        if contract.approximates is None:
            return Passed(message=contract.version)
        newer = contract.version == known_versions()[-1]
        return (
            Problem(
                message=(
                    f"SGLang {shown(contract.approximates, 40)} is not known; it is judged as "
                    f"{contract.version}, "
                    + ("the newest known" if newer else "the nearest older one")
                ),
                evidence={"asked": contract.approximates, "judged_as": contract.version},
            ),
        )


RULES: tuple[type[Rule], ...] = (SRC001, SRC002, SRC003, SRC004, SRC005)
