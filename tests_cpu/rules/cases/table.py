"""All cases, by rule."""

from __future__ import annotations

from tests_cpu.rules.cases import (
    config,
    files,
    fusion,
    live,
    lossless,
    numbers,
    values,
    vocabulary,
    wiring_values,
)
from tests_cpu.rules.cases.case import Case

CASES: tuple[Case, ...] = (
    *files.CASES,
    *config.CASES,
    *numbers.CASES,
    *vocabulary.CASES,
    *fusion.CASES,
    *values.CASES,
    *live.CASES,
    *wiring_values.CASES,
    *lossless.CASES,
)
