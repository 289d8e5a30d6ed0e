"""Damage the header and the index of a small checkpoint, and see that it is only ever told.

    python -m benchmarks.fuzz_headers [--cases 100000] [--seed 1]

Every case is read (`read_manifest`); every twentieth goes through all of `inspect`. It is a failure
where anything is raised, takes longer than a second of CPU, or where safetensors refuses a file in
which nothing was found. Memory is the peak of the whole process against its start.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import struct
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import safetensors

from eagle3_checks.checkpoint import read_manifest
from eagle3_checks.checkpoint.manifest import INDEX
from eagle3_checks.inspection import inspect

WEIGHTS, CONFIG = "model.safetensors", "config.json"
HANG_SECONDS, SLOW_SECONDS = 10.0, 1.0
INSPECT_EVERY = 20
_PIECES = (
    b"-1",
    b"0",
    b"1e999",
    b"NaN",
    b"null",
    b"true",
    b"9223372036854775807",
    b"18446744073709551616",
    b"9" * 5000,
    b"[" * 3000,
    b'{"a":' * 3000,
    b'"',
    b"\\u0000",
    b"\\ud800",
    b"\xff\xfe",
    b"\x1b[2J",
    b"../../etc/passwd",
    b"__metadata__",
    b",",
    b":",
    b"}",
)


@dataclass
class Tally:
    """What happened in a run."""

    cases: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0
    started: float = field(default_factory=time.perf_counter)
    rss_before: int = 0

    @property
    def grown(self) -> int:
        """Bytes by which the peak of memory grew."""
        return _peak_rss() - self.rss_before


class _HangError(BaseException):
    """A case that did not end; no handler of the code under test may catch it."""


def run(source: Path, cases: int, seed: int) -> Tally:
    """Damage copies of the drafter in `source`, with and without an index, `cases` times."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    whole = (source / WEIGHTS).read_bytes()
    index = _index(source)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - spares the disk
    with TemporaryDirectory(prefix="eagle3-fuzz-", dir=memory) as name:
        folder = Path(name)
        (folder / CONFIG).write_bytes((source / CONFIG).read_bytes())
        tally = Tally(rss_before=_peak_rss())
        for _ in range(cases):
            weights, text = whole, index
            if chance.random() < 0.7:  # noqa: PLR2004 - most damage goes to the header
                weights = damaged_file(whole, chance)
                text = index if chance.random() < 0.3 else b""  # noqa: PLR2004
            else:
                text = damage(index, chance)
            (folder / WEIGHTS).write_bytes(weights)
            if text:
                (folder / INDEX).write_bytes(text)
            else:
                (folder / INDEX).unlink(missing_ok=True)
            _case(folder, weights, tally)
    return tally


def damaged_file(whole: bytes, chance: random.Random) -> bytes:
    """Damage a safetensors file: its header, its length, or where it ends."""
    length = int.from_bytes(whole[:8], "little")
    header, data = whole[8 : 8 + length], whole[8 + length :]
    kind = chance.randrange(4)
    if kind == 0:  # bytes of the length or the header, as they lie
        start = damage(whole[: 8 + length], chance, keep_length=True)
        return start + data
    if kind == 1:  # another header, rightly measured
        new = damage(header, chance)
        return struct.pack("<Q", len(new)) + new + data
    if kind == 2:  # noqa: PLR2004 - cut off
        return whole[: chance.randrange(len(whole))]
    return struct.pack("<Q", _size(chance, len(whole))) + whole[8:]


def damage(text: bytes, chance: random.Random, *, keep_length: bool = False) -> bytes:
    """Change some bytes; cut, repeat or insert pieces unless the length is to be kept."""
    changed = bytearray(text)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        kind = 0 if keep_length else chance.randrange(5)
        at = chance.randrange(len(changed) + 1)
        end = min(len(changed), at + chance.randrange(1, 40))
        if kind == 0 and changed:
            changed[min(at, len(changed) - 1)] = chance.randrange(256)
        elif kind == 1:
            changed[at:end] = chance.choice(_PIECES)
        elif kind == 2:  # noqa: PLR2004 - left out
            del changed[at:end]
        elif kind == 3:  # noqa: PLR2004 - twice
            changed[at:at] = changed[at:end]
        elif kind == 4 and chance.random() < 0.2:  # noqa: PLR2004 - cut off
            del changed[at:]
    return bytes(changed)


def _size(chance: random.Random, length: int) -> int:
    near = [0, 1, 7, 8, length - 9, length - 8, length - 7, length, 100_000_000, 100_000_001]
    far = [1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, chance.getrandbits(64)]
    return chance.choice([*near, *far, chance.randrange(length)])


def _index(source: Path) -> bytes:
    names = read_manifest(source).tensors
    return json.dumps({"metadata": {}, "weight_map": dict.fromkeys(names, WEIGHTS)}).encode()


def _case(folder: Path, weights: bytes, tally: Tally) -> None:
    tally.cases += 1
    begin = time.process_time()  # what other processes do to the clock is not the case's fault
    try:
        with _no_hang():
            manifest = read_manifest(folder)
            faults = {p.fault.value for p in manifest.problems}
            if tally.cases % INSPECT_EVERY == 0:
                verdict = inspect(str(folder))["verdict"]
                tally.ends[f"verdict {verdict}"] += 1
                if faults and verdict != "fail":
                    tally.failures.append(f"case {tally.cases}: faults, and verdict {verdict}")
        tally.ends.update(faults or {"clean"})
        if not faults and not _accepted(weights):
            tally.failures.append(f"case {tally.cases}: clean, and safetensors refuses it")
    except (Exception, _HangError):  # noqa: BLE001 - whatever it is, it is a failure
        tally.failures.append(f"case {tally.cases}: {traceback.format_exc(limit=-3)}")
    took = time.process_time() - begin
    tally.slowest = max(tally.slowest, took)
    if took > SLOW_SECONDS:
        tally.failures.append(f"case {tally.cases}: {took:.1f} s")


def _accepted(data: bytes) -> bool:
    try:
        deserialize: Callable[[bytes], Any] = safetensors.deserialize
        deserialize(data)
    except safetensors.SafetensorError:
        return False
    return True


@contextmanager
def _no_hang() -> Iterator[None]:
    """Break off what does not end."""

    def stop(*_: object) -> None:
        raise _HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _peak_rss() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(argv: Sequence[str] | None = None) -> int:
    """Run, and print what happened; exit 1 where anything went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    tiny = Path(__file__).resolve().parents[1] / "fixtures" / "tiny" / "drafter"
    parser.add_argument("--drafter", type=Path, default=tiny)
    arguments = parser.parse_args(argv)
    tally = run(arguments.drafter, arguments.cases, arguments.seed)
    seconds = time.perf_counter() - tally.started
    lines = [
        f"{tally.cases} cases in {seconds:.0f} s, seed {arguments.seed}",
        f"slowest case {tally.slowest * 1000:.0f} ms; memory grew by {tally.grown / 1e6:.0f} MB",
        *(f"  {count:7} {end}" for end, count in tally.ends.most_common()),
        f"{len(tally.failures)} failures",
        *tally.failures[:5],
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
