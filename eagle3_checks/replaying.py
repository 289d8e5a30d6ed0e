"""The replay of a profile: what its drafter reaches when nothing can be wired wrong."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from eagle3_checks.checkpoint.digest import digest
from eagle3_checks.checkpoint.files import CheckpointError
from eagle3_checks.checkpoint.hub import local_folder
from eagle3_checks.checkpoint.subject import Subject
from eagle3_checks.contract.capture import Capture, resolve_capture
from eagle3_checks.contract.version import Contract, ContractError
from eagle3_checks.facts import Replayed, RequestSample
from eagle3_checks.measure.acceptance import summarise
from eagle3_checks.measure.progress import SILENT, Progress
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.measure.states import GIGABYTE, Recorded, StatesError, Store, record_states
from eagle3_checks.measure.statistics import ratio_interval, shift
from eagle3_checks.measure.transport import Transport
from eagle3_checks.profile import Model, Profile
from eagle3_checks.server.arguments import flags
from eagle3_checks.server.device import detect_device
from eagle3_checks.server.open import open_server
from eagle3_checks.server.readiness import ServerStartError

CAPTURING = (
    *("--speculative-algorithm", "EAGLE3"),
    "--enable-return-aux-hidden-states",
    "--disable-radix-cache",
)
"""Flags under which a server without a drafter returns aux states, of whole prompts."""


class ReplayError(RuntimeError):
    """A drafter or target that cannot be replayed; the message says why and what to do."""


def replay_profile(  # noqa: PLR0913 - what is replayed, on what, where it goes and who watches
    profile: Profile,
    files: Subject,
    contract: Contract,
    prompts: Sequence[Prompt],
    artefacts: Path,
    *,
    progress: Progress = SILENT,
) -> Replayed:
    """Run the drafter on the target's true aux states, over these prompts. Raises ReplayError."""
    source = "server" if profile.replay.source == "server" else "transformers"
    capture = true_capture(files, contract)
    with told() as oracle:
        plan = plan_of(oracle, profile, files, capture)
        stopped = ""
        if source == "server":
            found, stopped = _recorded(profile, capture, prompts, artefacts, plan.written, progress)
            stored = [oracle.Stored(**vars(one)) for one in found]
            samples = _watched(oracle.from_states(plan, stored), len(stored), progress)
        else:
            asked = asked_of(oracle, prompts)
            samples = _watched(oracle.from_transformers(plan, asked), len(asked), progress)
    acceptance = summarise(samples, profile.speculation)
    acceptance = dataclasses.replace(acceptance, planned=len(prompts), stopped=stopped)
    return Replayed(source=source, acceptance=acceptance)


def plan_of(oracle: ModuleType, profile: Profile, files: Subject, capture: Capture) -> Any:
    """Say what the reference runs, and as what. Raises ReplayError."""
    return oracle.Plan(
        target=_folder(profile.target.path),
        drafter=_folder(profile.drafter.path),
        boundaries=tuple(sorted(capture.wanted)),
        speculation=profile.speculation,
        new_tokens=profile.prompts.max_new_tokens,
        ends=files.tokenizer.ends if files.tokenizer else (),
        chat=profile.prompts.chat_template,
        device=replay_device(profile),
        dtype=_dtype(profile, files),
    )


def asked_of(oracle: ModuleType, prompts: Sequence[Prompt]) -> list[Any]:
    """Return prompts as the reference takes them."""
    return [
        oracle.Asked(prompt_id=p.id, prompt_set=p.set, text=p.text, messages=p.messages)
        for p in prompts
    ]


def _recorded(  # noqa: PLR0913, PLR0917 - what is served, asked, and where it goes
    profile: Profile,
    capture: Capture,
    prompts: Sequence[Prompt],
    artefacts: Path,
    new_tokens: int,
    progress: Progress,
) -> tuple[list[Recorded], str]:
    """Return the prompts' states; a server without a drafter is launched for those not there."""
    store = Store(
        folder=Path(profile.replay.states or artefacts / "states"),
        subject=json.dumps(
            [digest(_folder(profile.target.path)), capture.stated, profile.prompts.chat_template]
        ),
        most_bytes=round(profile.replay.max_gigabytes * GIGABYTE),
    )
    known = [store.find(prompt, new_tokens) for prompt in prompts]
    if all(known):
        return [one for one in known if one is not None], ""
    try:
        with open_server(capturing(profile, capture), artefacts / "states-server") as running:
            limit = profile.server.request_timeout
            transport = Transport(running.url, api_key=running.api_key, timeout=limit)
            try:
                return record_states(
                    transport,
                    prompts,
                    new_tokens,
                    store,
                    chat=profile.prompts.chat_template,
                    progress=progress,
                )
            finally:
                transport.close()
    except (ServerStartError, StatesError, OSError, ValueError) as error:
        raise ReplayError(f"the server without a drafter did not serve: {error}") from error


def capturing(profile: Profile, capture: Capture) -> Profile:
    """Return the profile of a server that hands over the drafter's aux states, without it."""
    ids = capture.stated or ()
    words = ("--return-aux-hidden-state-layer-ids", *map(str, ids)) if ids else ()
    server = dataclasses.replace(
        profile.server, args=(*profile.server.args, *CAPTURING, *words), port=0
    )
    return dataclasses.replace(profile, drafter=Model(), server=server)


def true_capture(files: Subject, contract: Contract) -> Capture:
    """Return which states the drafter was made for.

    Some of them may be such as a server never reaches: a replay is of the drafter, not of what is
    captured for it. Raises ReplayError.
    """
    if files.target is None:
        raise ReplayError("no target was given, so there are no aux states to replay on")
    try:
        seen = resolve_capture(files.draft, files.target, contract)
    except ContractError as error:
        raise ReplayError(str(error)) from error
    if not isinstance(seen, Capture):
        raise ReplayError(f"it is not known which states the drafter takes: {seen.reason}")
    outside = [i for i in seen.wanted if not 0 <= i <= seen.depth]
    if outside:
        raise ReplayError(
            f"the drafter asks for the states {outside}; the target has 0 to {seen.depth}"
        )
    return seen


def _watched(
    samples: Iterable[RequestSample], total: int, progress: Progress
) -> list[RequestSample]:
    done: list[RequestSample] = []
    progress.begin("replay", total)
    try:
        for sample in samples:
            done.append(sample)
            steps = [s.verify_steps for s in done]
            ratio = ratio_interval([s.correct_drafts for s in done], steps)
            estimate = shift(ratio, 1.0) if ratio else None
            progress.update(len(done), estimate, verify_steps=sum(steps))
    finally:
        progress.end()
    return done


@contextmanager
def told() -> Iterator[ModuleType]:
    """Yield the reference, and turn what stops it into ReplayError."""
    try:
        from eagle3_checks.reference import oracle  # noqa: PLC0415 - torch is optional and slow
    except ImportError as error:
        raise ReplayError(
            f"a replay needs torch and transformers ({error}); install 'eagle3-checks[reference]'"
        ) from error
    try:
        yield oracle
    except (oracle.NotComputedError, oracle.WeightsError, oracle.TargetError) as error:
        raise ReplayError(str(error)) from error


def _folder(source: str) -> Path:
    try:
        return local_folder(source, weights=True)
    except CheckpointError as error:
        raise ReplayError(str(error)) from error


def replay_device(profile: Profile) -> str:
    """Return where the reference runs: ``cpu`` or ``cuda``."""
    wanted = profile.replay.device
    if wanted == "auto":
        return "cpu" if profile.server.device == "cpu" or not detect_device() else "cuda"
    return wanted


def _dtype(profile: Profile, files: Subject) -> str:
    """Return the type the server computes in: by its flag, else float32 on the CPU engine."""
    given = dict(flags(profile.server.args)).get("--dtype", "auto")
    names = {"half": "float16", "float": "float32"}
    if given != "auto":
        return names.get(given, given)
    if replay_device(profile) == "cpu":
        return "float32"
    stated = files.target.dtype if files.target else None
    return stated or files.draft.dtype or "bfloat16"
