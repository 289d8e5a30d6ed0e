"""Why a drafter does not speculate: ranked causes, with the evidence for and against each."""

from __future__ import annotations

from eagle3_checks.diagnosis.evidence import Evidence, Subject
from eagle3_checks.diagnosis.rank import diagnose

__all__ = ["Evidence", "Subject", "diagnose"]
