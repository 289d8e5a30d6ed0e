"""Coverage, false verdicts and cost of the judgements, by simulation.

Prompts are drawn from those of the tiny pair (verify steps and correct drafts of 80 held-out
prompts of 256 tokens on the CPU engine), of its drafter made noisy (benchmarks/record_counts.py),
and from made-up populations. A prompt is drawn whole, so that its steps hang together as they
really do. Run from the repository: ``python benchmarks/statistics.py``.
"""

from __future__ import annotations

import sys

# statistics.py here would be taken for the library's module of that name.
sys.path[:] = [p for p in sys.path if not p.endswith("/benchmarks")]

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from eagle3_checks.facts import RequestSample
from eagle3_checks.measure.judging import Inquiry, LengthFloor, NotWorse, Question
from eagle3_checks.measure.statistics import ACCEPTED_SKEW, ratio_interval
from eagle3_checks.verdict import Outcome

PLANNED = 80
TOKENS = 256
CONCURRENCY = 4
ERROR = 0.05
LEAST, MOST = 0.93, 0.97
Draw = Callable[[random.Random], tuple[int, int]]
"""Verify steps and correct drafts of one prompt."""


@dataclass(frozen=True, kw_only=True)
class Population:
    """Prompts to draw from, and their pooled accept length."""

    name: str
    draw: Draw
    length: float


def recorded(name: str) -> Population:
    """Return the population of one recorded drafter."""
    data = json.loads(Path(__file__).with_name("tiny_counts.json").read_text(encoding="utf-8"))
    pairs = [(int(s), int(c)) for s, c in data[name]]
    length = 1 + sum(c for _, c in pairs) / sum(s for s, _ in pairs)
    return Population(name=f"tiny, {name}", draw=lambda rng: rng.choice(pairs), length=length)


def made_up(length: float, spread: float) -> Population:
    """Return prompts of a fixed output length whose accept lengths are Gaussian around one."""

    def draw(rng: random.Random) -> tuple[int, int]:
        own = min(3.9, max(1.0, rng.gauss(length, spread)))
        steps = round((TOKENS - 1) / own)
        return steps, TOKENS - 1 - steps

    rng = random.Random(0)  # noqa: S311 - a seeded simulation
    drawn = [draw(rng) for _ in range(200_000)]
    pooled = 1 + sum(c for _, c in drawn) / sum(s for s, _ in drawn)
    return Population(name=f"made up, {spread} around {length}", draw=draw, length=pooled)


def dead(_: random.Random) -> tuple[int, int]:
    """Draw a prompt of a drafter of which nothing is accepted."""
    return TOKENS - 1, 0


def sample(number: int, counts: tuple[int, int]) -> RequestSample:
    """Return a request with these counts."""
    steps, correct = counts
    return RequestSample(
        prompt_id=str(number),
        prompt_set="s",
        prompt_tokens=0,
        completion_tokens=TOKENS,
        verify_steps=steps,
        correct_drafts=correct,
        proposed_drafts=3 * steps,
        histogram=None,
    )


def coverage(people: Population, size: int, runs: int) -> float:
    """Return the share of plain intervals over `size` prompts that hold the truth."""
    held = 0
    for seed in range(runs):
        rng = random.Random(seed)  # noqa: S311 - a seeded simulation
        pairs = [people.draw(rng) for _ in range(size)]
        found = ratio_interval([c for _, c in pairs], [s for s, _ in pairs], skew=ACCEPTED_SKEW)
        held += found is not None and found.low <= people.length - 1 <= found.high
    return held / runs


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a simulated run ended."""

    outcome: Outcome
    held: bool
    """Whether the repeated interval holds the truth where the run stopped."""
    steps: int
    whole: int
    """Verify steps of the fixed design."""


def runs_of(draw: Draw, floor: float, truth: float, runs: int) -> Iterator[Ended]:
    """Judge simulated runs against a floor, with the looks and boundaries of a real one."""
    for seed in range(runs):
        rng = random.Random(seed)  # noqa: S311 - a seeded simulation
        samples = [sample(n, draw(rng)) for n in range(PLANNED)]
        yield judge(samples, LengthFloor(floor=floor), truth)


def judge(samples: Sequence[RequestSample], question: Question, truth: float) -> Ended:
    """Look at growing parts of the prompts until the verdict is certain."""
    inquiry = Inquiry(
        questions={"q": question}, planned=PLANNED, concurrency=CONCURRENCY, error=ERROR
    )
    for number, size in enumerate(inquiry.looks):
        if inquiry.look(number, samples[:size]):
            break
    judged = inquiry.judged["q"]
    return Ended(
        outcome=judged.outcome,
        held=judged.interval.low <= truth <= judged.interval.high,
        steps=judged.verify_steps,
        whole=sum(s.verify_steps for s in samples),
    )


def paired(loss: float, spread: float, runs: int) -> Iterator[Ended]:
    """Judge a drafter with a loss against a baseline over the same prompts."""
    people = recorded("healthy")
    for seed in range(runs):
        rng = random.Random(seed)  # noqa: S311 - a seeded simulation
        before = [sample(n, people.draw(rng)) for n in range(PLANNED)]
        after = []
        for number, old in enumerate(before):
            factor = max(0.3, rng.gauss(1.0, spread)) / (1 - loss)
            steps = min(TOKENS - 1, round(old.verify_steps * factor))
            after.append(sample(number, (steps, max(0, TOKENS - 1 - steps))))
        counts = {("s", s.prompt_id): (s.verify_steps, s.correct_drafts) for s in before}
        yield judge(after, NotWorse(baseline=counts, margin=0.03), -loss)


def main() -> int:
    """Print the tables; 0 where every figure is as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4000)
    runs: int = parser.parse_args().runs
    begin = time.perf_counter()
    healthy, noisy = recorded("healthy"), recorded("noisy")
    populations = (healthy, noisy, made_up(2.2, 0.3), made_up(2.2, 0.5))
    good = show_coverage(populations, runs)
    good &= show_error(populations, runs)
    good &= show_cost(healthy, runs)
    show_pairs(runs)
    print(f"\n{runs} runs a cell, {time.perf_counter() - begin:.0f} s")
    return 0 if good else 1


def show_coverage(populations: Sequence[Population], runs: int) -> bool:
    """Print the coverage of plain intervals, which must be 93 to 97 %."""
    sizes = (10, 20, 40, 80)
    print("Coverage of the 95 % interval of the accept length over a fixed number of prompts (%)")
    print(f"  {'prompts':28}" + "".join(f"{size:>8}" for size in sizes))
    good = True
    for people in populations:
        shares = [coverage(people, size, runs) for size in sizes]
        good &= all(LEAST <= share <= MOST for share in shares)
        print(f"  {people.name:28}" + "".join(f"{100 * share:8.1f}" for share in shares))
    return good


def show_error(populations: Sequence[Population], runs: int) -> bool:
    """Print how often a run at the floor itself is judged at any look: at most 5 %."""
    print("\nThe floor is the truth itself: verdicts at any look, of at most 80 prompts (%)")
    print(f"  {'prompts':28}{'reached':>8}{'missed':>8}{'either':>8}{'held':>8}")
    good = True
    for people in populations:
        ended = list(runs_of(people.draw, people.length, people.length, runs))
        reached = sum(e.outcome is Outcome.REACHED for e in ended) / runs
        missed = sum(e.outcome is Outcome.MISSED for e in ended) / runs
        held = sum(e.held for e in ended) / runs
        good &= reached + missed <= ERROR
        cells = (reached, missed, reached + missed, held)
        print(f"  {people.name:28}" + "".join(f"{100 * cell:8.1f}" for cell in cells))
    print("  (held: the repeated interval holds the truth where the run stopped)")
    return good


def show_cost(people: Population, runs: int) -> bool:
    """Print verify steps to a verdict as a share of the fixed design's."""
    print(f"\nVerify steps to a verdict / those of the fixed design, 80 prompts x {TOKENS} tokens")
    print(f"  {'case':44}{'share':>8}{'at most':>8}{'open, %':>8}{'wrong, %':>9}")
    length = people.length
    cases = [
        ("dead drafter, floor 2", dead, 2.0, 1.0, 0.1, Outcome.MISSED),
        ("tiny, 15 % below the floor", people.draw, length / 0.85, length, 0.25, Outcome.MISSED),
        ("tiny, 15 % above the floor", people.draw, length / 1.15, length, 0.25, Outcome.REACHED),
        ("tiny, 10 % below the floor", people.draw, length / 0.9, length, 1.0, Outcome.MISSED),
        ("tiny, 5 % below the floor", people.draw, length / 0.95, length, 1.0, Outcome.MISSED),
    ]
    good = True
    for name, draw, floor, truth, limit, right in cases:
        ended = list(runs_of(draw, floor, truth, runs))
        share = sum(e.steps for e in ended) / sum(e.whole for e in ended)
        open_share = sum(e.outcome is Outcome.OPEN for e in ended) / runs
        wrong = sum(e.outcome not in (right, Outcome.OPEN) for e in ended) / runs
        good &= share <= limit and wrong <= ERROR
        print(f"  {name:44}{share:8.3f}{limit:8.2f}{100 * open_share:8.1f}{100 * wrong:9.1f}")
    return good


def show_pairs(runs: int) -> None:
    """Print verdicts against a baseline, paired by prompt, 3 % allowed."""
    print("\nAgainst a baseline of the same prompts, a loss of 3 % allowed (%)")
    print(f"  {'loss':>6}{'spread':>8}{'no worse':>10}{'worse':>8}{'open':>8}{'steps':>8}")
    for loss, spread in ((0.0, 0.0), (0.0, 0.15), (0.03, 0.15), (0.1, 0.15), (0.1, 0.05)):
        ended = list(paired(loss, spread, runs))
        counts = [sum(e.outcome is o for e in ended) / runs for o in Outcome]
        share = sum(e.steps for e in ended) / sum(e.whole for e in ended)
        print(
            f"  {100 * loss:6.0f}{spread:8.2f}{100 * counts[0]:10.1f}{100 * counts[1]:8.1f}"
            f"{100 * counts[2]:8.1f}{share:8.2f}"
        )


if __name__ == "__main__":
    raise SystemExit(main())
