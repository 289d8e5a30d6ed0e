"""How often holding a run against its baseline errs, and finds a loss of ten per cent.

Serves the tiny pair on the CPU engine, records a baseline over all held-out prompts, then judges
the same drafter, and one whose head was made noisy, twenty times each, every time on other
prompts. Run from the repository: ``python benchmarks/baselines.py`` (about 15 minutes on 2 cores).
"""

from __future__ import annotations

import sys

# statistics.py here would be taken for the library's module of that name.
sys.path[:] = [p for p in sys.path if not p.endswith("/benchmarks")]

import argparse
import dataclasses
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from eagle3_checks.contract.version import contract_for
from eagle3_checks.measure.acceptance import Measured, Server, measure_acceptance
from eagle3_checks.measure.client import Client
from eagle3_checks.measure.judging import Inquiry, NotWorse, PromptKey, key
from eagle3_checks.measure.prompts import Prompt, load_prompts
from eagle3_checks.profile import Model, Profile, Prompts
from eagle3_checks.server.open import open_server
from eagle3_checks.settings import resolve
from eagle3_checks.shipped import shipped
from eagle3_checks.verdict import Judgement, Outcome

MARGIN = 0.03
NOISE = 0.2
"""Standard deviation of the noise on the head, as a share of the head's own."""
WANTED_LOSS = (0.09, 0.11)
Measure = Callable[..., Measured]


def main() -> int:
    """Print both counts; 0 where they are as they must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--prompts", type=int, default=60, help="at most so many a run")
    parser.add_argument("--noise", type=float, default=NOISE, help="of the head's deviation")
    given = parser.parse_args()
    profile = resolve("tiny", environ={}).profile
    pool = load_prompts(dataclasses.replace(profile.prompts, limit=0)).prompts
    with tempfile.TemporaryDirectory() as folder:
        with served(profile, Path(folder)) as measure:
            whole = measure(pool, concurrency=8)
            counts = {key(s): (s.verify_steps, s.correct_drafts) for s in whole.samples}
            same = judge(measure, pool, counts, given.runs, given.prompts)
        length = pooled(whole)
        print(f"baseline: accept length {length:.3f} over {len(whole.samples)} prompts")
        show("the same drafter", same)
        noise = given.noise
        for _ in range(3):
            noisy = degraded(profile, Path(folder) / "noisy", noise)
            with served(noisy, Path(folder)) as measure:
                after = pooled(measure(pool, concurrency=8))
                loss = 1 - after / length
                print(
                    f"noise {noise:.3f} of the head's deviation: accept length {after:.3f}, "
                    f"{-loss:+.1%}"
                )
                if WANTED_LOSS[0] <= loss <= WANTED_LOSS[1]:
                    worse = judge(measure, pool, counts, given.runs, given.prompts)
                    break
            noise *= (sum(WANTED_LOSS) / 2 / max(loss, 0.01)) ** 0.5
        else:
            print("no noise gave a loss of about ten per cent")
            return 1
    show("the noisy drafter", worse)
    false = sum(j.outcome is Outcome.MISSED for j in same)
    found = sum(j.outcome is Outcome.MISSED for j in worse)
    print(
        f"false regressions {false} of {given.runs} (at most 1 of 20); "
        f"found {found} of {given.runs} (at least 18 of 20)"
    )
    return 0 if false <= given.runs / 20 and found >= 0.9 * given.runs else 1


@contextmanager
def served(profile: Profile, folder: Path) -> Iterator[Measure]:
    """Serve a profile and yield what measures prompts."""
    names = contract_for("0.5.23").meta
    with open_server(profile, folder / "artefacts") as running:
        client = Client(running.url, timeout=profile.server.request_timeout)
        server = Server(names=names, version="0.5.23", speculation=profile.speculation)

        def measure(
            prompts: Sequence[Prompt], *, concurrency: int, inquiry: Inquiry | None = None
        ) -> Measured:
            form: Prompts = dataclasses.replace(profile.prompts, concurrency=concurrency)
            measured = measure_acceptance(client, prompts, form, server, inquiry=inquiry)
            if measured.failures or measured.acceptance.contradictions:
                raise RuntimeError(f"{measured.failures} {measured.acceptance.contradictions}")
            return measured

        try:
            yield measure
        finally:
            client.close()


def judge(
    measure: Measure,
    pool: Sequence[Prompt],
    counts: dict[PromptKey, tuple[int, int]],
    runs: int,
    size: int,
) -> list[Judgement]:
    """Judge again and again, each time on prompts drawn anew."""
    judged = []
    for seed in range(runs):
        chosen = random.Random(seed).sample(list(pool), min(size, len(pool)))  # noqa: S311
        question = NotWorse(baseline=counts, margin=MARGIN)
        inquiry = Inquiry(questions={"baseline": question}, planned=len(chosen), concurrency=4)
        measure(chosen, concurrency=4, inquiry=inquiry)
        judged.append(inquiry.judged["baseline"])
    return judged


def pooled(measured: Measured) -> float:
    """Return the accept length over all prompts."""
    steps = sum(s.verify_steps for s in measured.samples)
    return 1 + sum(s.correct_drafts for s in measured.samples) / steps


def degraded(profile: Profile, folder: Path, noise: float) -> Profile:
    """Copy the drafter with Gaussian noise on its head, of a fixed seed."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(shipped("fixtures", "tiny", "drafter"), folder)
    path = folder / "model.safetensors"
    tensors = load_file(path)
    head = tensors["lm_head.weight"].float()
    drawn = torch.randn(head.shape, generator=torch.Generator().manual_seed(0))
    tensors["lm_head.weight"] = (head + noise * head.std() * drawn).to(
        tensors["lm_head.weight"].dtype
    )
    save_file(tensors, path)
    return dataclasses.replace(profile, drafter=Model(path=str(folder)))


def show(name: str, judged: Sequence[Judgement]) -> None:
    """Print how the runs ended and what they took."""
    outcomes = {o.value: sum(j.outcome is o for j in judged) for o in Outcome}
    prompts = sum(j.prompts for j in judged) / len(judged)
    print(f"{name}: {outcomes}, {prompts:.1f} prompts a run of at most {judged[0].planned}")


if __name__ == "__main__":
    raise SystemExit(main())
