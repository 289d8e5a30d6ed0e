"""VAL004 to VAL006: the scale of weights, norms, and the embedding beside the target's."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from math import isfinite, sqrt
from statistics import median

from eagle3_checks.contract.version import Contract
from eagle3_checks.facts import DraftConfig, Manifest, TensorStats, TensorValues
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.plan import unused_tensors
from eagle3_checks.rules.text import counted, ids, listed
from eagle3_checks.verdict import Severity

FILES = ("SRC001", "SRC002", "SRC004")
UNASKED = Skip("needs --values")
LARGE, SMALL = 0.5, 1e-6
"""Root mean square outside of which a trained matrix is unlikely: linear layers start at a few
hundredths and stay near it, ``torch.randn`` and ``nn.Embedding`` start at 1."""
NORM_LARGE, NORM_SMALL = 20.0, 0.1
"""Root mean square outside of which a norm that training started at 1 is unlikely: a small trained
drafter has 1.1 to 1.6, and no trainer that is known ends a decade away."""
FAR = 20.0
"""How many times a row's scale may differ from the median row's."""
WIDE = 512
"""Columns from which on chance alone leaves the scales of fresh rows within 3 % of each other."""
ROWS = 200
"""Sampled rows below which a share of them says little."""
BAND, AROUND = 2.0, 5
"""The band in which chance leaves fresh rows, in standard deviations to either side, and how many
times wider the band is that it is compared with."""
CROWDED = 2.5
"""How many times denser the band may be than the wider one; 5 where all rows are in it."""


def judged(values: TensorValues) -> str:
    """Say how many tensors were looked at."""
    skipped = f", {counted(len(values.skipped), 'other')} not judged" if values.skipped else ""
    return f"{counted(len(values.tensors), 'tensor')}{skipped}"


def is_head(name: str) -> bool:
    """Whether a tensor is the head, with a row for each token."""
    return name.endswith("lm_head.weight")


class VAL004(Rule):
    """Weights have the scale of trained ones."""

    title = "Weights have the scale of trained ones"
    severity = Severity.WARNING
    why = (
        "Linear layers start at a root mean square of a few hundredths and stay near it. One near "
        "1 is what torch.randn or a fresh embedding gives, one far beyond it what uninitialised "
        "memory gives; a head row far from the others was not trained with them. Rows of a fresh "
        "head have one scale up to chance, which training pulls apart: common tokens grow. Not "
        "seen are fresh rows that are fewer than about a third of the head or have fewer than "
        f"{WIDE} columns, and a fresh matrix with the trainer's usual scale: its values look like "
        "those of a trained one, and only the accept length (ACC001) tells them apart."
    )
    fix = "Compare the tensor with the trainer's checkpoint: it may never have been loaded."
    references = ("https://github.com/lightseekorg/TorchSpec/issues/38",)
    requires = FILES

    @staticmethod
    def check(
        manifest: Manifest,
        draft: DraftConfig,
        contract: Contract,
        values: TensorValues | None = None,
    ) -> Outcome:
        """Report matrices and head rows of an unlikely scale."""
        if values is None:
            return UNASKED
        unused = unused_tensors(manifest, draft, contract)
        problems: list[Problem] = []
        for name, seen in values.tensors.items():
            plain = len(seen.shape) == 2 and not seen.dtype.startswith("F8")  # noqa: PLR2004
            if not plain or name in unused or seen.all_zero or not seen.sampled:
                continue
            if not SMALL <= seen.rms <= LARGE:
                problems.append(
                    Problem(
                        message=(
                            f"{listed([name])} has a root mean square of {seen.rms:.2g}; a trained "
                            f"weight hardly leaves {SMALL:g} to {LARGE:g}"
                        ),
                        evidence={"tensor": name, "rms": seen.rms},
                    )
                )
            elif is_head(name):
                problems.extend((*_far_rows(seen), *_fresh_rows(seen)))
        return problems or Passed(message=judged(values))


def _far_rows(seen: TensorStats) -> Iterator[Problem]:
    """Report sampled rows whose scale is far from the others'; zero rows are another rule's."""
    scales = {row: rms for row, rms in seen.row_rms.items() if isfinite(rms) and rms > 0}
    middle = median(scales.values()) if scales else 0.0
    far = [row for row, rms in scales.items() if not middle / FAR <= rms <= middle * FAR]
    if far:
        yield Problem(
            message=(
                f"{len(far)} of {len(seen.row_rms)} sampled rows of {listed([seen.name])} are "
                f"{FAR:g} times larger or smaller than the others, as {ids(far[:3])}"
            ),
            evidence={"tensor": seen.name, "rows": far},
        )


def _fresh_rows(seen: TensorStats) -> Iterator[Problem]:
    """Report a crowd of sampled rows whose scales differ by chance alone.

    The root mean square of n normal values varies by 1 / sqrt(2 n) of itself.
    """
    scales = sorted(rms for rms in seen.row_rms.values() if isfinite(rms) and rms > 0)
    if seen.shape[1] < WIDE or len(scales) < ROWS:
        return
    chance = 1 / sqrt(2 * seen.row_elements)
    near = BAND * chance
    centre = max(scales, key=lambda scale: _within(scales, scale, near))
    crowd, around = _within(scales, centre, near), _within(scales, centre, near * AROUND)
    if crowd * AROUND > CROWDED * around and crowd * AROUND > len(scales):
        yield Problem(
            message=(
                f"{crowd} of {len(scales)} sampled rows of {listed([seen.name])} have the root "
                f"mean square {centre:.3g} to within {near:.1%}, which is how fresh random rows "
                "differ; the rows of a trained head differ more"
            ),
            evidence={"tensor": seen.name, "rows": crowd, "rms": centre, "chance": chance},
        )


def _within(ordered: Sequence[float], centre: float, share: float) -> int:
    low, high = centre * (1 - share), centre * (1 + share)
    return bisect_right(ordered, high) - bisect_left(ordered, low)


class VAL005(Rule):
    """Norm weights are near 1, where training starts them."""

    title = "Norm weights are near 1"
    severity = Severity.WARNING
    why = (
        "SGLang's RMSNorm multiplies by the weight, which training starts at 1. Weights near 0 are "
        "those of a norm that adds 1 (Gemma's), and make every state vanish; huge ones drown the "
        "rest. Where the limit lies is a judgement: healthy drafters are far inside."
    )
    fix = "Check which norm the trainer used; for one that adds 1, export weight + 1."
    requires = FILES

    @staticmethod
    def check(values: TensorValues | None = None) -> Outcome:
        """Report norms whose scale is far from 1."""
        if values is None:
            return UNASKED
        norms = {n: s for n, s in values.tensors.items() if _is_norm(s) and s.sampled}
        far = [
            Problem(
                message=(
                    f"{listed([name])} has a root mean square of {seen.rms:.2g} (from "
                    f"{seen.low:.2g} to {seen.high:.2g}); norms start at 1 and hardly "
                    f"leave {NORM_SMALL:g} to {NORM_LARGE:g}"
                ),
                evidence={"tensor": name, "rms": seen.rms},
            )
            for name, seen in norms.items()
            if not NORM_SMALL <= seen.rms <= NORM_LARGE and not seen.all_zero
        ]
        return far or Passed(message=counted(len(norms), "norm"))


def _is_norm(seen: TensorStats) -> bool:
    return len(seen.shape) == 1 and "norm" in seen.name and seen.name.endswith(".weight")


class VAL006(Rule):
    """The drafter's own embedding, which SGLang discards, is the target's."""

    title = "The embedding that is discarded is the target's own"
    severity = Severity.WARNING
    why = (
        "SGLang serves the drafter with the target's embedding wherever their widths agree. A "
        "drafter whose embedding differs was trained with another, or its export is broken: vLLM, "
        "which may keep it, then serves the same file otherwise than SGLang."
    )
    fix = "Train with the target's embedding, frozen; or export it as it is in the target."
    references = ("https://github.com/lightseekorg/TorchSpec/issues/38",)
    requires = FILES

    @staticmethod
    def check(
        manifest: Manifest,
        draft: DraftConfig,
        contract: Contract,
        values: TensorValues | None = None,
    ) -> Outcome:
        """Compare a sample of rows, where drafter and target both have theirs at hand."""
        if values is None:
            return UNASKED
        seen = values.embedding
        if seen is None:
            return Skip("needs an embedding in the drafter's file and the target's weights")
        if seen.name not in unused_tensors(manifest, draft, contract):
            return Passed(message=f"{listed([seen.name])} is the drafter's own, and is kept")
        if seen.equal == seen.rows:
            return Passed(message=f"{seen.rows} sampled rows equal {listed([seen.target_name])}")
        return (
            Problem(
                message=(
                    f"{seen.rows - seen.equal} of {seen.rows} sampled rows of "
                    f"{listed([seen.name])} differ from {listed([seen.target_name])}, by up to "
                    f"{seen.largest:.2g}; SGLang serves the target's"
                ),
                evidence={"rows": seen.rows, "equal": seen.equal, "largest": seen.largest},
            ),
        )


RULES: tuple[type[Rule], ...] = (VAL004, VAL005, VAL006)
