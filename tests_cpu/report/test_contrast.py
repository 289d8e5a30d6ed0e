"""The page's colours can be read: WCAG 2.2 contrast, 4.5 for texts and 3 for lines."""

from __future__ import annotations

import re

import pytest

from eagle3_checks.report.html import page
from tests_cpu.report import samples

TEXTS = (
    *(("ink", ground) for ground in ("paper", "card", "skip-soft", "pass-soft", "fail-soft")),
    *(("soft", ground) for ground in ("paper", "card", "pass-soft", "fail-soft", "doubt-soft")),
    *((tone, f"{tone}-soft") for tone in ("pass", "fail", "doubt", "skip")),
    ("floor", "paper"),
    ("base", "paper"),
)
LINES = (("seen", "card"), ("seen", "seen-soft"), ("floor", "card"), ("base", "card"))


def colours(scheme: int) -> dict[str, str]:
    block = re.findall(r":root \{(.*?)\}", page(samples.not_run()), re.DOTALL)[scheme]
    return dict(re.findall(r"--([\w-]+): #([0-9a-f]+)", block))


def brightness(colour: str) -> float:
    digits = colour if len(colour) == 6 else "".join(2 * c for c in colour)
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1, 2], ids=["light", "dark", "print"])
def test_contrast(scheme: int) -> None:
    known = colours(scheme)
    for pairs, wanted in ((TEXTS, 4.5), (LINES, 3.0)):
        for name, ground in pairs:
            low, high = sorted(brightness(known[n]) for n in (name, ground))
            assert (high + 0.05) / (low + 0.05) >= wanted, (name, ground)
