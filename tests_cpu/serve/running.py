"""One run of the gate over the tiny pair, as a user would start it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eagle3_checks.shipped import shipped

TINY = shipped("fixtures", "tiny")
# Enough to tell a working drafter from a dead one, and quick.
SMALL = {
    "EAGLE3_CHECKS_PROMPTS_LIMIT": "12",
    "EAGLE3_CHECKS_PROMPTS_MAX_NEW_TOKENS": "64",
    "EAGLE3_CHECKS_SPEED_REQUESTS": "4",
}


@dataclass(frozen=True)
class Run:
    """One finished run of the gate."""

    code: int
    output: str
    result: dict[str, Any]

    def causes(self) -> list[str]:
        """Codes of the causes, first to last."""
        return [cause["code"] for cause in self.result["causes"]]

    def status(self, code: str) -> str:
        """Status of a rule."""
        return str(next(f["status"] for f in self.result["findings"] if f["code"] == code))

    def acceptance(self) -> dict[str, Any]:
        """Measured acceptance."""
        measured = self.result["measurements"]["acceptance"]
        assert isinstance(measured, dict)
        return measured
