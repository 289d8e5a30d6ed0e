"""The replay of a profile: what its drafter reaches when nothing can be wired wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eagle3_checks.checkpoint.files import CheckpointError
from eagle3_checks.checkpoint.hub import local_folder
from eagle3_checks.checkpoint.subject import Subject
from eagle3_checks.contract.capture import Capture, resolve_capture
from eagle3_checks.contract.version import Contract, ContractError
from eagle3_checks.facts import Replayed, RequestSample
from eagle3_checks.measure.acceptance import summarise
from eagle3_checks.measure.progress import SILENT, Progress
from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.measure.statistics import ratio_interval, shift
from eagle3_checks.profile import Profile
from eagle3_checks.server.arguments import flags
from eagle3_checks.server.device import detect_device


class ReplayError(RuntimeError):
    """A drafter or target that cannot be replayed; the message says why and what to do."""


def replay_profile(
    profile: Profile,
    files: Subject,
    contract: Contract,
    prompts: Sequence[Prompt],
    *,
    progress: Progress = SILENT,
) -> Replayed:
    """Run the drafter on the target's true aux states, over these prompts. Raises ReplayError."""
    boundaries = true_boundaries(files, contract)
    with _told():
        from eagle3_checks.reference.oracle import Asked, Plan, from_transformers  # noqa: PLC0415

        plan = Plan(
            target=_folder(profile.target.path),
            drafter=_folder(profile.drafter.path),
            boundaries=boundaries,
            speculation=profile.speculation,
            new_tokens=profile.prompts.max_new_tokens,
            ends=files.tokenizer.ends if files.tokenizer else (),
            chat=profile.prompts.chat_template,
            device=replay_device(profile),
            dtype=_dtype(profile, files),
        )
        asked = [
            Asked(prompt_id=p.id, prompt_set=p.set, text=p.text, messages=p.messages)
            for p in prompts
        ]
        samples = _watched(from_transformers(plan, asked), len(asked), progress)
    return Replayed(source="transformers", acceptance=summarise(samples, profile.speculation))


def true_boundaries(files: Subject, contract: Contract) -> tuple[int, ...]:
    """Return the states that the drafter was made for, ascending as SGLang hands them over.

    Where some of them cannot be reached they are taken all the same: a replay is of the drafter,
    not of what a server captures. Raises ReplayError.
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
    return tuple(sorted(seen.wanted))


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
def _told() -> Iterator[None]:
    """Turn what stops the reference into ReplayError."""
    try:
        from eagle3_checks.reference import oracle  # noqa: PLC0415 - torch is optional and slow
    except ImportError as error:
        raise ReplayError(
            f"a replay needs torch and transformers ({error}); install 'eagle3-checks[reference]'"
        ) from error
    try:
        yield
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
