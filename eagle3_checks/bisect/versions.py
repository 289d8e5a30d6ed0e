"""What SGLang releases make of the files alone, and what changed in them between two."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from eagle3_checks.bisect.points import PointError
from eagle3_checks.contract.version import Contract, ContractError, contract_for, known_versions
from eagle3_checks.gate import Gate
from eagle3_checks.profile import Resolved

_LEFT_OUT = ("version", "approximates", "sha256", "targets", "meta_info_keys")
"""What names the data itself, what is taken apart below, and the names that `meta` chooses from."""

Errors = tuple[str, ...]


def versions(given: Sequence[str]) -> tuple[str, ...]:
    """Return the releases to search: those given, and all known ones between where two are.

    Raises PointError.
    """
    try:
        ordered = sorted(set(given), key=Version)
        for version in ordered:
            contract_for(version)
    except InvalidVersion as error:
        raise PointError(f"{error}; write versions as in {known_versions()[-1]}") from None
    except ContractError as error:
        raise PointError(str(error)) from None
    if len(ordered) < 2:  # noqa: PLR2004 - two ends
        raise PointError("a bisect takes two versions or more, as in 0.5.9 0.5.23")
    if len(ordered) > 2:  # noqa: PLR2004 - a list of one's own
        return tuple(ordered)
    low, high = map(Version, ordered)
    between = [v for v in known_versions() if low < Version(v) < high]
    return (ordered[0], *between, ordered[1])


def errors_by_version(
    listed: Sequence[str], resolve: Callable[[str], Resolved]
) -> dict[str, Errors]:
    """Judge the files for each release; nothing is launched."""
    found = {}
    for version in listed:
        with Gate(resolve(version), Path()) as gate:
            failed = {f.code for f in gate.static_findings() if f.is_error}
        found[version] = tuple(sorted(failed))
    return found


def first_change(errors: Mapping[str, Errors]) -> tuple[str, str] | None:
    """Return the two neighbours between which errors arrive, or leave, for good; or None."""
    turns = [
        (before, after)
        for before, after in itertools.pairwise(errors)
        if bool(errors[before]) != bool(errors[after])
    ]
    return turns[-1] if len(turns) % 2 else None  # an even number leads back to where it began


def changes(before: str, after: str, target_class: str = "") -> list[str]:
    """Say what differs between two releases as far as a drafter is concerned, one line a thing."""
    old, new = _flat(contract_for(before), target_class), _flat(contract_for(after), target_class)
    lines = []
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if was == now:
            continue
        if isinstance(was, tuple) and isinstance(now, tuple):
            lines += [f"{key}: now without {_word(e)}" for e in was if e not in now]
            lines += [f"{key}: now with {_word(e)}" for e in now if e not in was]
        else:
            lines.append(f"{key}: {_word(was)}, then {_word(now)}")
    return lines


def _flat(contract: Contract, target_class: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for field in dataclasses.fields(contract):
        value = getattr(contract, field.name)
        if field.name in _LEFT_OUT:
            continue
        if dataclasses.is_dataclass(value):
            flat |= {
                f"{field.name}.{f.name}": getattr(value, f.name) for f in dataclasses.fields(value)
            }
        elif isinstance(value, Mapping):
            flat |= {f"{field.name}.{name}": entry for name, entry in value.items()}
        else:
            flat[field.name] = value
    if target_class:
        flat[f"targets.{target_class}"] = contract.targets.get(target_class)
    return flat


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " -> ".join(map(str, value)) or "nothing"
    return "nothing" if value is None else str(value)


def spans(errors: Mapping[str, Errors]) -> list[tuple[str, str, Errors]]:
    """Return first and last release of each run of neighbours with the same errors."""
    found: list[tuple[str, str, Errors]] = []
    for codes, group in itertools.groupby(errors, key=lambda version: errors[version]):
        members = list(group)
        found.append((members[0], members[-1], codes))
    return found
