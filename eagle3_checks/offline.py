"""The replay command: a drafter run offline, printed beside what it reached when served."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from eagle3_checks.checkpoint.subject import Subject
from eagle3_checks.contract.version import contract_for, known_versions
from eagle3_checks.measure.acceptance import shuffled
from eagle3_checks.measure.progress import SILENT, Progress
from eagle3_checks.measure.prompts import PromptError, load_prompts
from eagle3_checks.profile import Resolved
from eagle3_checks.replaying import ReplayError, replay_profile
from eagle3_checks.report.result import Result, build_result, write_json
from eagle3_checks.report.terminal import overview, terminal_width
from eagle3_checks.settings import ProfileError, resolve
from eagle3_checks.verdict import ExitCode, Verdict


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    overrides = {
        "target.path": arguments.target,
        "drafter.path": arguments.draft,
        "server.url": arguments.url,
        "replay.source": arguments.source,
        "replay.prompts": arguments.prompts,
        "replay.device": arguments.device,
        "replay.states": arguments.states,
    }
    try:
        resolved = resolve(arguments.profile, overrides)
        result = replay(resolved, arguments.artefacts, arguments.served)
    except (ProfileError, ReplayError) as error:
        print(f"eagle3-checks replay: {error}", file=sys.stderr)  # noqa: T201 - a command's words
        return ExitCode.USAGE if isinstance(error, ProfileError) else ExitCode.FAIL
    console = Console(width=terminal_width())
    for line in overview(result, console.width - 1):
        console.print(line, soft_wrap=True, highlight=False)
    if arguments.json:
        write_json(result, arguments.json)
        console.print(f"{'result':<11}{arguments.json}", soft_wrap=True, highlight=False)
    return ExitCode.PASS


def replay(resolved: Resolved, artefacts: Path, served: Path | None = None) -> Result:
    """Replay a profile; return a result whose verdict is open, since nothing is judged.

    `served` is the result of a gate over the same drafter, whose acceptance is put beside. Raises
    ProfileError where the profile has no drafter, and ReplayError.
    """
    profile = resolved.profile
    if not profile.drafter.path:
        raise ProfileError("no drafter was given: --profile FILE|NAME, or --draft and --target")
    files = Subject(profile.drafter.path, profile.target.path)
    if files.draft.problems:
        fault = files.draft.problems[0]
        raise ReplayError(f"{fault.file}: {fault.detail}; {fault.fix}")
    measured = _served(served, files.drafter_hash) if served else None
    contract = contract_for(profile.server.sglang or known_versions()[-1])
    try:
        prompts = load_prompts(profile.prompts)
    except PromptError as error:
        raise ReplayError(str(error)) from error
    chosen = shuffled(prompts.prompts)[: profile.replay.prompts or None]
    replayed = replay_profile(profile, files, contract, chosen, artefacts, progress=_progress())
    measurements = {"replayed": replayed, "prompts_sha256": prompts.sha256}
    return build_result(
        verdict=Verdict.NOT_RUN,
        findings=(),
        subject={
            "target": profile.target.path,
            "drafter": profile.drafter.path,
            "sglang": contract.version,
            "hashes": {"drafter": files.drafter_hash},
        },
        measurements=measurements | ({"acceptance": measured} if measured else {}),
        resolved=resolved,
    )


def _served(path: Path, drafter: str | None) -> Mapping[str, Any]:
    """Return the acceptance in a gate's result. Raises ReplayError."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        measured = result["measurements"]["acceptance"]
        of = result["subject"]["hashes"]["drafter"]
        _ = measured["verify_steps"], measured["accept_length"]["value"]
    except OSError as error:
        raise ReplayError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ReplayError(
            f"{path}: no result of a gate that measured acceptance ({type(error).__name__}: "
            f"{error}); write one with `eagle3-checks gate --json {path}`"
        ) from error
    if of != drafter:
        raise ReplayError(f"{path}: it is of another drafter ({of}, not {drafter})")
    found: Mapping[str, Any] = measured
    return found


def _progress() -> Progress:
    """Return a progress line where a person watches."""
    if not sys.stderr.isatty():
        return SILENT
    from eagle3_checks.report.progress import TerminalProgress  # noqa: PLC0415 - needs a terminal

    return TerminalProgress(sys.stderr, contextlib.nullcontext)
