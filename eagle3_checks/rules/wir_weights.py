"""WIR: whether the served weights are the ones in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eagle3_checks.facts import Corner, LoadSeen, Wiring
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip

FIRST = (".q_proj.", ".q_a_proj.", ".gate_proj.")
"""In the names of tensors that are the first of those a fused parameter is made of."""
ROUNDING = 0.01
"""Share by which a value may differ: bfloat16 keeps 8 bits."""
NOTHING = 1e-6
"""Difference that is none, whatever the share."""


class WIR008(Rule):
    """The drafter serves with the weights of its file."""

    title = "The served weights are the file's"
    why = (
        "What was loaded may be written over: by a transfer of weights that brings none, or those "
        "of another model, or by a loader that moves rows. The drafter then proposes noise."
    )
    fix = "Serve without updates of weights, and compare; then report it to SGLang."
    references = (
        "docs/wiring.md",
        "https://github.com/sgl-project/sglang/issues/27718",
    )
    requires = ("WIR001", "WIR002")

    @staticmethod
    def check(wiring: Wiring, corners: Mapping[str, Corner]) -> Outcome:
        """Compare the first values of each matrix, on the first rank."""
        load = next((load for load in wiring.loads if load.rank == 0), None)
        if load is None or not wiring.corners:
            return Skip("the probe saw no served weights")
        pairs = list(_pairs(load, wiring.corners, corners))
        if not pairs:
            return Skip("no matrix is served as it is stored")
        wrong = [(p, t, found) for p, t, found in pairs if found is not None]
        if not wrong:
            return Passed(message=f"the first values of all {len(pairs)} matrices")
        parameter, tensor, found = wrong[0]
        row, column, seen, wanted = found or (0, 0, 0.0, 0.0)
        more = f"; {len(wrong) - 1} more of {len(pairs)} matrices differ" if wrong[1:] else ""
        return (
            Problem(
                message=(
                    f"{parameter} is served with {seen:.4g} where {tensor} has {wanted:.4g} "
                    f"(row {row}, column {column}){more}"
                ),
                evidence={"parameters": [p for p, _, _ in wrong]},
            ),
        )


Place = tuple[int, int, float, float]


def _pairs(
    load: LoadSeen, served: Mapping[str, Corner], stored: Mapping[str, Corner]
) -> Iterator[tuple[str, str, Place | None]]:
    """Yield each parameter with the tensor it begins with, and the first place they differ in."""
    begins: dict[str, str] = {}
    for tensor in load.tensors:
        for parameter in tensor.into:
            if parameter not in begins or any(mark in tensor.name for mark in FIRST):
                begins[parameter] = tensor.name
    for parameter, name in begins.items():
        if parameter in served and name in stored and parameter not in load.shared:
            yield parameter, name, _difference(served[parameter], stored[name])


def _difference(served: Corner, stored: Corner) -> Place | None:
    for row, (mine, theirs) in enumerate(zip(served, stored, strict=False)):
        for column, (seen, wanted) in enumerate(zip(mine, theirs, strict=False)):
            if not abs(seen - wanted) <= ROUNDING * abs(wanted) + NOTHING:
                return row, column, seen, wanted
    return None


RULES: tuple[type[Rule], ...] = (WIR008,)
