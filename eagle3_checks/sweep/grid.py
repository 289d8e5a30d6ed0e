"""The trials of a sweep: drafters x steps, topk, draft tokens x SGLang releases."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle3_checks.identity import (
    drafter_identity,
    flags_identity,
    release_identity,
    target_identity,
)
from eagle3_checks.measure.prompts import load_prompts
from eagle3_checks.profile import Profile, Resolved, Speculation
from eagle3_checks.report.result import tool_version
from eagle3_checks.settings import ProfileError

_UNSAFE = re.compile(r"[^\w.]+")


class GridError(ValueError):
    """A grid without trials, or one that cannot be made; the message says what to give."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run of the gate, in the plain form that reaches another machine."""

    id: str
    """Names its files; the same drafter, flags and prompts have the same one."""
    profile: str | None
    overrides: Mapping[str, Any]
    drafter: str
    speculation: str
    """Steps, topk, draft tokens, as in 3-1-4."""
    sglang: str


@dataclass(frozen=True, kw_only=True)
class Axes:
    """The values that are combined; an empty one takes the profile's."""

    drafters: Sequence[str] = ()
    steps: Sequence[int] = ()
    topk: Sequence[int] = ()
    draft_tokens: Sequence[int] = ()
    """For trees; a chain always has steps + 1."""
    releases: Mapping[str, Mapping[str, Any]] | None = None
    """Settings that serve each release."""


def trials(
    axes: Axes,
    profile: str | None,
    common: Mapping[str, Any],
    resolve: Callable[[str | None, Mapping[str, Any]], Resolved],
) -> tuple[tuple[Trial, ...], tuple[str, ...]]:
    """Return the trials, and the combinations left out with the reason.

    Raises GridError where none is left or a drafter cannot be read, ProfileError where the profile
    itself is at fault.
    """
    usual = resolve(profile, common).profile
    if usual.server.url:
        raise GridError(f"server.url is set ({usual.server.url}): a sweep starts its own servers")
    drafters = axes.drafters or ((usual.drafter.path,) if usual.drafter.path else ())
    if not drafters:
        raise GridError("no drafter is given: --draft MODEL …, or one in the profile")
    for drafter in drafters:
        if drafter_identity(drafter) is None:
            raise GridError(f"{drafter}: its files cannot be read")
    found: dict[str, Trial] = {}
    left_out: list[str] = []
    releases: Mapping[str, Mapping[str, Any]] = axes.releases or {usual.server.sglang: {}}
    for steps, topk in itertools.product(
        axes.steps or (usual.speculation.steps,), axes.topk or (usual.speculation.topk,)
    ):
        for tokens in _draft_tokens(axes, usual.speculation, steps, topk):
            spec = f"{steps}-{topk}-{tokens}"
            flags = {
                "speculation.steps": steps,
                "speculation.topk": topk,
                "speculation.draft_tokens": tokens,
            }
            try:
                resolve(profile, {**common, **flags})
            except ProfileError as error:
                left_out.append(f"{spec}: {str(error).partition(': ')[2]}")
                continue
            for drafter, (release, served) in itertools.product(drafters, releases.items()):
                overrides = {**common, **flags, **served, "drafter.path": drafter}
                of_it = resolve(profile, overrides).profile
                name = _name(of_it, drafter, spec, release)
                found[name] = Trial(
                    id=name,
                    profile=profile,
                    overrides=overrides,
                    drafter=drafter,
                    speculation=spec,
                    sglang=release,
                )
    if not found:
        raise GridError("no combination is left: " + "; ".join(left_out))
    return tuple(found.values()), tuple(left_out)


def _draft_tokens(axes: Axes, usual: Speculation, steps: int, topk: int) -> Sequence[int]:
    if topk == 1:
        return (steps + 1,)
    if axes.draft_tokens:
        return axes.draft_tokens
    if usual.topk > 1:
        return (usual.draft_tokens,)
    raise GridError(f"topk {topk} makes trees: say how large, as in --draft-tokens 8")


def _name(profile: Profile, drafter: str, spec: str, release: str) -> str:
    """Return a readable name that ends in a hash of what the trial depends on."""
    key = [
        drafter_identity(drafter),
        target_identity(profile.target.path),
        flags_identity(profile),
        load_prompts(profile.prompts).sha256,
        release_identity(profile),
        tool_version(),
    ]
    hashed = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:10]
    parts = (_UNSAFE.sub("-", Path(drafter).name), spec, release, hashed)
    return "_".join(part for part in parts if part)
