"""Bisects over sixteen drafters with a training fault: the right one, in how many launches.

A run of sixteen checkpoints is made from the tiny drafter: healthy ones differ by a little noise,
and from one place on they have a fault of training. Serving all of them forty times over would
take hours, so that each distinct drafter is served once by the real server and its counts of every
prompt are kept in ``bisect_counts.json`` (``--record``, ten minutes). A run then draws its prompts
from them anew, with replacement, and all its launches have these, as real ones do.

Exit code 1 where a run names another drafter or takes more launches than log2(16) + 3, and where
a fault that costs a fifth or more is not named. From the repository:
``python -m benchmarks.bisect``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from eagle3_checks.bisect.criterion import Criterion, parse
from eagle3_checks.bisect.launch import Enough, launch
from eagle3_checks.bisect.points import Point
from eagle3_checks.bisect.readings import Reading, from_json, to_json
from eagle3_checks.bisect.run import Bisect, Outcome
from eagle3_checks.profile import Resolved
from eagle3_checks.reference.tensorfile import RawTensor, read_tensors, write_tensors
from eagle3_checks.settings import resolve
from eagle3_checks.shipped import shipped

COUNT, RUNS, LAUNCHES, INTERRUPTED = 16, 20, 7, 3
PROMPTS, TOKENS = 40, 256
"""Prompts that a launch sends at first, of the profile ``tiny``, and their output tokens."""
NOISE = 0.01
"""Standard deviation of the noise of a healthy one, as a share of each tensor's own."""
KEPT = Path(__file__).with_name("bisect_counts.json")
DRAFTER = shipped("fixtures", "tiny") / "drafter"
Change = Callable[[str, np.ndarray, np.random.Generator], np.ndarray]


def _noisy(share: float) -> Change:
    def change(_: str, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return values + rng.normal(0, share * values.std(), values.shape)

    return change


def _states_in_another_order(name: str, values: np.ndarray, _: np.random.Generator) -> np.ndarray:
    if name != "fc.weight":
        return values
    first, second, third = np.split(values, 3, axis=1)
    return np.concatenate([third, second, first], axis=1)


def _norms_lost(name: str, values: np.ndarray, _: np.random.Generator) -> np.ndarray:
    return np.ones_like(values) if name.endswith("norm.weight") else values


def _head_half_trained(name: str, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if name != "lm_head.weight":
        return values
    lost = rng.random(len(values)) < 0.3  # noqa: PLR2004 - share of rows
    return np.where(lost[:, None], rng.normal(0, values.std(), values.shape), values)


FAULTS: Mapping[str, Change] = {
    "diverged": _noisy(0.7),
    "aux states in another order": _states_in_another_order,
    "three in ten rows of the head lost": _head_half_trained,
}
SMALL = "norms at their initial ones"
"""A fault that costs 7 % of the accept length: the least that 80 prompts tell at all."""
CHANGES = {**FAULTS, SMALL: _norms_lost}
HEALTHY = ("healthy 0", "healthy 1", "healthy 2")


def write_drafter(out: Path, seed: int, fault: str = "") -> None:
    """Write a drafter near the tiny one, with a fault where one is named."""
    rng = np.random.default_rng(seed)
    out.mkdir(parents=True)
    (out / "config.json").write_bytes((DRAFTER / "config.json").read_bytes())
    tensors, metadata = read_tensors(DRAFTER / "model.safetensors")
    changed = {}
    for name, tensor in tensors.items():
        if not tensor.dtype.startswith(("F", "BF")):
            changed[name] = tensor
            continue
        values = _noisy(NOISE)(name, _values(tensor), rng)
        if fault:
            values = CHANGES[fault](name, values, rng)
        changed[name] = _tensor(tensor, values)
    write_tensors(changed, out / "model.safetensors", metadata)


def _values(tensor: RawTensor) -> np.ndarray:
    return np.frombuffer(tensor.data, np.float16).reshape(tensor.shape).astype(np.float32)


def _tensor(like: RawTensor, values: np.ndarray) -> RawTensor:
    return RawTensor(like.dtype, like.shape, values.astype(np.float16).tobytes())


def record(folder: Path) -> dict[str, Reading]:
    """Serve every distinct drafter once, all prompts of the set."""
    readings = {}
    for seed, name in enumerate((*HEALTHY, *CHANGES)):
        home = folder / f"drafter-{seed}"
        write_drafter(home, seed, name if name in CHANGES else "")
        overrides: dict[str, object] = {
            "drafter.path": str(home),
            "prompts.limit": 0,
            "judging.sequential": False,
        }
        overrides |= {"prompts.max_new_tokens": TOKENS, "server.request_timeout": 300.0}
        reading = launch(resolve("tiny", overrides), parse("accept-length"), folder / f"{seed}")
        if reading.trouble:
            raise SystemExit(f"{name}: {reading.trouble}")
        readings[name] = reading
        print(f"{name:36}  accept length {_length(reading):.2f}", flush=True)
    return readings


@dataclass(kw_only=True)
class Redrawn:
    """Stands in for the launches: prompts drawn once a run, with the counts of each drafter."""

    readings: Mapping[str, Reading]
    kinds: Mapping[str, str]
    """Recorded drafter by path."""
    drawn: Sequence[int]
    """Which recorded prompts this run has, in order."""
    stop_after: int = 1 << 30
    launches: int = 0

    def __call__(self, resolved: Resolved, _: Criterion, __: Path, enough: Enough) -> Reading:
        """Return what a launch would: the profile's prompts, and all where they are not enough."""
        if self.launches == self.stop_after:
            raise KeyboardInterrupt
        self.launches += 1
        recorded = self.readings[self.kinds[resolved.profile.drafter.path]].counts
        counts = tuple(
            replace(recorded[index], prompt_id=str(place)) for place, index in enumerate(self.drawn)
        )
        reading = Reading(counts=counts[:PROMPTS], whole=False)
        return reading if enough(reading) else Reading(counts=counts)


def run_of(folder: Path, place: int, fault: str) -> tuple[tuple[Point, ...], dict[str, str]]:
    """Write sixteen checkpoints, those from `place` on with the fault, and what each is."""
    points, kinds = [], {}
    for number in range(COUNT):
        home = folder / f"epoch-{number}"
        home.mkdir(parents=True)
        config = json.loads((DRAFTER / "config.json").read_text(encoding="utf-8"))
        (home / "config.json").write_text(json.dumps(config | {"epoch": number}))
        os.link(DRAFTER / "model.safetensors", home / "model.safetensors")
        points.append(Point(name=home.name, overrides={"drafter.path": str(home)}))
        kinds[str(home)] = fault if number >= place else HEALTHY[number % len(HEALTHY)]
    return tuple(points), kinds


def search_once(
    folder: Path,
    readings: Mapping[str, Reading],
    place: int,
    fault: str,
    *,
    stop_after: int = 1 << 30,
) -> tuple[Outcome, int]:
    """Bisect one run with a fault from a place on; returns what was found, and all launches."""
    rng = random.Random(f"{place} {fault}")  # noqa: S311 - a seeded simulation
    points, kinds = run_of(folder / "run", place, fault)
    prompts = len(next(iter(readings.values())).counts)
    drawn, launches = rng.choices(range(prompts), k=prompts), 0
    for limit in (stop_after, 1 << 30):
        launcher = Redrawn(readings=readings, kinds=kinds, drawn=drawn, stop_after=limit)
        bisect = Bisect(
            points, parse("accept-length"), _resolve, folder / "artefacts", launcher=launcher
        )
        try:
            outcome = bisect.run()
        except KeyboardInterrupt:
            launches += launcher.launches
            continue
        return outcome, launches + launcher.launches
    raise AssertionError("interrupted twice")


def _resolve(point: Point) -> Resolved:
    return resolve("tiny", dict(point.overrides))


def load() -> dict[str, Reading]:
    """Return the recorded counts of every distinct drafter."""
    data = json.loads(KEPT.read_text(encoding="utf-8"))
    readings = {name: from_json(entry) for name, entry in data.items()}
    # The same prompt at the same place for every drafter.
    return {
        name: replace(reading, counts=tuple(sorted(reading.counts, key=lambda c: c.prompt_id)))
        for name, reading in readings.items()
    }


def _length(reading: Reading) -> float:
    return 1 + sum(c.correct for c in reading.counts) / sum(c.verify_steps for c in reading.counts)


def rounds(readings: Mapping[str, Reading], faults: Sequence[str]) -> Iterator[tuple[bool, bool]]:
    """Run twenty bisects, the last interrupted after three launches; yields named, and allowed."""
    for number in range(RUNS):
        place, fault = 1 + number * 7 % (COUNT - 1), faults[number % len(faults)]
        last = number == RUNS - 1
        with tempfile.TemporaryDirectory() as folder:
            stop = INTERRUPTED if last else 1 << 30
            outcome, launches = search_once(Path(folder), readings, place, fault, stop_after=stop)
        found = outcome.boundary
        named = bool(found and found.exact and found.after == place)
        right = named or not (found and found.exact)
        told = f"named {found.after:2}" if found and found.exact else "not told"
        note = "  interrupted and resumed" if last else ""
        print(f"fault at {place:2}  {told:8}  {launches} launches  {fault}{note}")
        yield named, right and launches <= LAUNCHES


def main() -> int:
    """Record, or run the bisects over what is recorded."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true", help="serve every distinct drafter anew")
    if parser.parse_args().record:
        with tempfile.TemporaryDirectory() as folder:
            readings = record(Path(folder))
        kept = {name: to_json(reading) for name, reading in readings.items()}
        KEPT.write_text(json.dumps(kept, separators=(",", ":")) + "\n", encoding="utf-8")
    readings = load()
    large, small = list(rounds(readings, list(FAULTS))), list(rounds(readings, [SMALL]))
    for faults, seen in (("large faults", large), ("the small fault", small)):
        named, allowed = (sum(column) for column in zip(*seen, strict=True))
        print(f"{faults}: named in {named} of {RUNS}, wrong or too long in {RUNS - allowed}")
    good = all(named and allowed for named, allowed in large)
    return 0 if good and all(allowed for _, allowed in small) else 1


if __name__ == "__main__":
    sys.exit(main())
