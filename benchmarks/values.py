"""How fast `inspect --values` reads, against a plain sequential read of the same file.

    python -m benchmarks.values [--runs 7] [--folder DIR]

The file is real: 1.9 GB of bfloat16 that no file system can compress, with the sizes of a drafter
for Llama-3.1-8B. Both passes read it in the same state: out of the page cache before each run
("disk"), or wholly in it ("memory"). They run in turn, each in a process of its own that times its
pass, and the ratio is the median of the ratios of neighbours. The goal is for the disk: a drafter
is judged when it has just arrived, and reading it is what takes the time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

PLAIN = """\
import sys, time
begin = time.perf_counter()
view = memoryview(bytearray(1 << 20))
with open(sys.argv[1] + "/model.safetensors", "rb", buffering=0) as file:
    while file.readinto(view):
        pass
print(time.perf_counter() - begin)
"""
SCAN = """\
import sys, time
from pathlib import Path
if sys.argv[2:] == ["bare"]:
    sys.modules["numpy"] = None
from eagle3_checks.checkpoint import floats, read_manifest, scan
folder, found = Path(sys.argv[1]), floats.numpy() is not None
assert found != bool(sys.argv[2:]), "numpy"
begin = time.perf_counter()
seen = scan.scan(folder, read_manifest(folder))
print(time.perf_counter() - begin)
assert len(seen.tensors) == 15 and not seen.problems, seen
"""
GOAL, MEMORY_GOAL = 0.6, 600
HIDDEN, INNER, VOCAB, DRAFT_VOCAB = 4096, 14336, 128256, 32000
SHAPES = {
    "fc.weight": (HIDDEN, 3 * HIDDEN),
    "lm_head.weight": (DRAFT_VOCAB, HIDDEN),
    "norm.weight": (HIDDEN,),
    "midlayer.self_attn.q_proj.weight": (HIDDEN, 2 * HIDDEN),
    "midlayer.self_attn.k_proj.weight": (1024, 2 * HIDDEN),
    "midlayer.self_attn.v_proj.weight": (1024, 2 * HIDDEN),
    "midlayer.self_attn.o_proj.weight": (HIDDEN, HIDDEN),
    "midlayer.mlp.gate_proj.weight": (INNER, HIDDEN),
    "midlayer.mlp.up_proj.weight": (INNER, HIDDEN),
    "midlayer.mlp.down_proj.weight": (HIDDEN, INNER),
    "midlayer.input_layernorm.weight": (HIDDEN,),
    "midlayer.hidden_norm.weight": (HIDDEN,),
    "midlayer.post_attention_layernorm.weight": (HIDDEN,),
    "embed_tokens.weight": (VOCAB, HIDDEN),
    "target.embed_tokens.weight": (VOCAB // 64, HIDDEN),
}
_TOPS = bytes((0x3B, 0x3C, 0xBB, 0xBC)[i % 4] for i in range(256))
"""Upper bytes of bfloat16 from 0.002 to 0.03, of either sign."""


@dataclass(frozen=True)
class Run:
    """One process: the seconds of its pass, and its peak memory."""

    seconds: float
    megabytes: float


def write(folder: Path) -> int:
    """Write the drafter; returns the size of its weights in bytes."""
    header, end = {}, 0
    for name, shape in SHAPES.items():
        begin, end = end, end + 2 * prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for part in _noise(end):
            stream.write(part)
        os.fsync(stream.fileno())
    return end


def _noise(size: int) -> Iterator[bytes]:
    source = random.Random(0)  # noqa: S311 - no secret
    while size:
        part = bytearray(min(size, 1 << 24))
        part[0::2] = source.randbytes(len(part) // 2)
        part[1::2] = source.randbytes(len(part) // 2).translate(_TOPS)
        size -= len(part)
        yield bytes(part)


def prepare(file: Path, state: str) -> None:
    """Put the whole file into the page cache, or out of it."""
    with file.open("rb", buffering=0) as stream:
        if state == "disk":
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        else:
            while stream.read(1 << 24):
                pass


def once(program: str, folder: Path, *words: str) -> Run:
    """Run one pass in a process of its own."""
    command = [sys.executable, "-c", program, str(folder), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        output = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"a pass ended with {process.returncode}")
    return Run(float(output), usage.ru_maxrss / 1e3)


def compare(folder: Path, state: str, runs: int, *words: str) -> tuple[list[float], list[Run]]:
    """Return the share of a plain read's rate that each scan reached, and the scans."""
    shares, scans = [], []
    for number in range(runs + 1):
        prepare(folder / "model.safetensors", state)
        plain = once(PLAIN, folder)
        prepare(folder / "model.safetensors", state)
        scan = once(SCAN, folder, *words)
        if number:  # the first pair compiles modules
            shares.append(plain.seconds / scan.seconds)
            scans.append(scan)
    return shares, scans


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the ratios with their goals; exit 1 where one is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--folder", help="where the file of 1.9 GB is put")
    arguments = parser.parse_args(argv)
    return int(report(arguments.folder, arguments.runs))


def report(place: str | None, runs: int) -> bool:
    """Measure and print; returns whether a goal was missed."""
    with TemporaryDirectory(prefix="eagle3-values-", dir=place) as name:
        folder = Path(name)
        size = write(folder)
        missed, memory = False, 0.0
        for state, words in (("disk", ()), ("memory", ()), ("disk", ("bare",))):
            shares, scans = compare(folder, state, runs, *words)
            share = statistics.median(shares)
            judged = state == "disk" and not words
            missed |= judged and share < GOAL
            memory = max(memory, *(run.megabytes for run in scans))
            rate = size / 1e9 / statistics.median(run.seconds for run in scans)
            goal = f"   goal: at least {GOAL:.0%}" if judged else ""
            print(
                f"--values, {state:6} {'no numpy' if words else 'numpy':8} {share:5.0%} of a plain "
                f"read ({min(shares):.0%} to {max(shares):.0%}), {rate:.1f} GB/s{goal}"
            )
    print(f"--values, peak memory {memory:.0f} MB   goal: at most {MEMORY_GOAL} MB")
    return missed or memory > MEMORY_GOAL


if __name__ == "__main__":
    sys.exit(main())
