"""All cases, by rule."""

from __future__ import annotations

from tests_cpu.rules.cases import config, files, fusion, live, lossless, numbers, values, vocabulary
from tests_cpu.rules.cases.case import Case

CASES: tuple[Case, ...] = (
    *files.CASES,
    *config.CASES,
    *numbers.CASES,
    *vocabulary.CASES,
    *fusion.CASES,
    *values.CASES,
    *live.CASES,
    *lossless.CASES,
)
