"""The defect zoo: planted defects, healthy variants, and the kinds of faults they stand for."""

from __future__ import annotations

from eagle3_checks.reference.defects.defect import Defect, Planted, Variant
from eagle3_checks.reference.defects.registry import DEFECTS, VARIANTS

__all__ = ["DEFECTS", "VARIANTS", "Defect", "Planted", "Variant"]
