"""What the profile asks of a figure, and where it says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SETTINGS = {
    "ACC001": "floors.accept_length",
    "ACC002": "floors.accept_rate",
    "SPD001": "floors.tokens_per_second",
    "SPD004": "floors.speed_up",
}


def setting_of(code: str) -> str:
    """Return the setting that holds the floor of a rule, or nothing."""
    return _SETTINGS.get(code, "")


def origin(result: Mapping[str, Any], code: str) -> str:
    """Say where the floor of a rule came from, or nothing."""
    return str(result["profile"].get(setting_of(code), {}).get("origin", ""))


def floor_of(result: Mapping[str, Any], code: str) -> float | None:
    """Return the floor of a rule that has a single one."""
    value = result["profile"].get(setting_of(code), {}).get("value")
    return value if isinstance(value, int | float) else None


def floors_by_concurrency(result: Mapping[str, Any], code: str) -> dict[str, float]:
    """Return the floors of a rule that has one for each concurrency.

    A floor for one GPU holds where the rule's evidence says so; it knows the machine.
    """
    asked = result["profile"].get(setting_of(code), {}).get("value") or {}
    floors = {key: floor for key, floor in asked.items() if ":" not in key}
    for finding in result["findings"]:
        if finding["code"] == code:
            for concurrency, entry in finding["evidence"].items():
                if isinstance(entry, Mapping) and isinstance(entry.get("floor"), int | float):
                    floors[concurrency] = entry["floor"]
    return floors
