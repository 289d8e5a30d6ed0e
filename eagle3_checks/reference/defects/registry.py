"""The zoo: every planted defect and every healthy variant, by name."""

from __future__ import annotations

from collections.abc import Mapping

from eagle3_checks.reference.defects import aux_states, configs, files, healthy, running, weights
from eagle3_checks.reference.defects.defect import Defect, Variant

DEFECTS: Mapping[str, Defect] = {
    defect.name: defect
    for defect in (
        *files.DEFECTS,
        *configs.DEFECTS,
        *aux_states.DEFECTS,
        *weights.DEFECTS,
        *running.DEFECTS,
    )
}
VARIANTS: Mapping[str, Variant] = {variant.name: variant for variant in healthy.VARIANTS}
