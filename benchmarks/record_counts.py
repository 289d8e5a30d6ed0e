"""Record what benchmarks/statistics.py draws from: counts by prompt of the tiny pair.

Serves the committed pair on the CPU engine, then its drafter made noisy, over all held-out prompts
with 256 new tokens each, and writes tiny_counts.json. Run from the repository:
``python -m benchmarks.record_counts`` (about three minutes on 2 cores).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from pathlib import Path

from benchmarks.baselines import NOISE, degraded, pooled, served
from eagle3_checks.checkpoint.digest import digest
from eagle3_checks.measure.judging import key
from eagle3_checks.measure.prompts import load_prompts
from eagle3_checks.profile import Profile
from eagle3_checks.settings import resolve

TOKENS = 256
CONCURRENCY = 8
COUNTS = Path(__file__).with_name("tiny_counts.json")


def main() -> int:
    """Write the counts of both drafters and print their accept lengths."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    profile = resolve("tiny", environ={}).profile
    prompts = dataclasses.replace(profile.prompts, limit=0, max_new_tokens=TOKENS)
    profile = dataclasses.replace(profile, prompts=prompts)
    with tempfile.TemporaryDirectory() as folder:
        noisy = degraded(profile, Path(folder) / "noisy", NOISE)
        data = {
            "drafter": digest(Path(profile.drafter.path)),
            "tokens": TOKENS,
            "healthy": counts(profile, Path(folder)),
            "noisy": counts(noisy, Path(folder)),
        }
    beside = COUNTS.with_suffix(".new")
    beside.write_text(json.dumps(data) + "\n", encoding="utf-8")
    beside.replace(COUNTS)
    return 0


def counts(profile: Profile, folder: Path) -> list[tuple[int, int]]:
    """Serve a profile and return verify steps and correct drafts by prompt."""
    with served(profile, folder) as measure:
        measured = measure(load_prompts(profile.prompts).prompts, concurrency=CONCURRENCY)
    print(f"{profile.drafter.path}: accept length {pooled(measured):.3f}")
    return [(s.verify_steps, s.correct_drafts) for s in sorted(measured.samples, key=key)]


if __name__ == "__main__":
    raise SystemExit(main())
