"""Time and memory of `inspect` on a large drafter, against a listing and against loading it.

    python -m benchmarks.inspect [--runs 5] [--folder DIR] [--no-load] [--no-values]

The drafter is a sparse file: all headers and sizes are real, the weights are zeros that take no
room on the disk; its reduced vocabulary is as large as any, since d2t is what `inspect` reads. Each
measurement is a process of its own, from start to end, in turn; the ratios are those of the medians
of one run of this script. Loading needs torch, and is left out with --no-load. How fast
`--values` reads is measured on a real file (benchmarks/values.py).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import values

LISTING = """\
import sys
from safetensors import safe_open
with safe_open(sys.argv[1], framework="np") as file:
    for key in file.keys():
        print(key, file.get_slice(key).get_shape())
"""
LOADING = """\
import sys
from safetensors.torch import load_file
print(sum(t.numel() for t in load_file(sys.argv[1]).values()))
"""
GOALS = {"listing": "at most 4", "memory": "at most 120 MB", "loading": "at least 8"}
_WIDTHS = {"BF16": 2, "I64": 8, "BOOL": 1}
HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM = 7168, 18432, 64, 64, 128
VOCAB, DRAFT_VOCAB = 163840, 159744
CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCAB,
    "draft_vocab_size": DRAFT_VOCAB,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


@dataclass(frozen=True)
class Cost:
    """What processes took: the median of their times, the largest of their memories."""

    seconds: float
    megabytes: float
    spread: float
    """Slowest less fastest, in seconds."""


def drafter(folder: Path) -> Path:
    """Write a drafter of Kimi-K2.5's sizes, 6.6 GB with its embedding."""
    query, keys = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    layer = {
        "self_attn.q_proj.weight": (query, 2 * HIDDEN),
        "self_attn.k_proj.weight": (keys, 2 * HIDDEN),
        "self_attn.v_proj.weight": (keys, 2 * HIDDEN),
        "self_attn.o_proj.weight": (HIDDEN, query),
        "mlp.gate_proj.weight": (INNER, HIDDEN),
        "mlp.up_proj.weight": (INNER, HIDDEN),
        "mlp.down_proj.weight": (HIDDEN, INNER),
        "input_layernorm.weight": (HIDDEN,),
        "hidden_norm.weight": (HIDDEN,),
        "post_attention_layernorm.weight": (HIDDEN,),
    }
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {
        "d2t": ("I64", (DRAFT_VOCAB,)),
        "t2d": ("BOOL", (VOCAB,)),
        "fc.weight": ("BF16", (HIDDEN, 3 * HIDDEN)),
        "lm_head.weight": ("BF16", (DRAFT_VOCAB, HIDDEN)),
        "norm.weight": ("BF16", (HIDDEN,)),
        **{f"midlayer.{name}": ("BF16", shape) for name, shape in layer.items()},
    }
    shapes["embed_tokens.weight"] = ("BF16", (VOCAB, HIDDEN))
    header, end = {}, 0
    for name, (dtype, shape) in shapes.items():
        begin, end = end, end + prod(shape) * _WIDTHS[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    kept = [i for i in range(VOCAB) if i % 42][:DRAFT_VOCAB]
    offsets = [target_id - draft_id for draft_id, target_id in enumerate(kept)]
    file = folder / "model.safetensors"
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.write(struct.pack(f"<{DRAFT_VOCAB}q", *offsets))
        stream.write(bytes(i % 42 > 0 and i <= kept[-1] for i in range(VOCAB)))
        stream.truncate(8 + len(text) + end)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return file


def measure(
    commands: Mapping[str, Sequence[str]], runs: int, environment: Mapping[str, str]
) -> dict[str, Cost]:
    """Run each command `runs` times, in turn, and a first time that does not count."""
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for number in range(runs + 1):
        for name, command in commands.items():
            cost = _once(command, environment)
            if number:
                seen[name].append(cost)
    return {
        name: Cost(
            seconds=statistics.median(t for t, _ in costs),
            megabytes=max(m for _, m in costs),
            spread=max(t for t, _ in costs) - min(t for t, _ in costs),
        )
        for name, costs in seen.items()
    }


def _compiled(cache: Path) -> dict[str, str]:
    """Return an environment in which modules are compiled once, as installed ones are."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def _once(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Return wall seconds and peak megabytes of one process."""
    begin = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begin
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return seconds, usage.ru_maxrss / 1e3


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the ratios with their goals; exit 1 where one is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", help="where the sparse file is put")
    parser.add_argument("--no-load", action="store_true", help="leave torch out")
    parser.add_argument("--no-values", action="store_true", help="leave the 1.9 GB file out")
    arguments = parser.parse_args(argv)
    python = sys.executable
    with TemporaryDirectory(prefix="eagle3-inspect-", dir=arguments.folder) as name:
        place = Path(name) / "drafter"
        place.mkdir()
        file = drafter(place)
        environment = _compiled(Path(name) / "compiled")
        commands = {
            "inspect": [python, "-m", "eagle3_checks", "inspect", str(place)],
            "listing": [python, "-c", LISTING, str(file)],
        }
        if not arguments.no_load:
            commands["loading"] = [python, "-c", LOADING, str(file)]
        costs = measure(commands, arguments.runs, environment)
        size = file.stat().st_size
    for name, cost in costs.items():
        _say(f"{name:8} {cost.seconds:7.3f} s (+-{cost.spread / 2:.3f})  {cost.megabytes:6.0f} MB")
    inspect = costs["inspect"]
    ratio = inspect.seconds / costs["listing"].seconds
    missed = [_told("inspect / listing", ratio, GOALS["listing"], good=ratio <= 4)]  # noqa: PLR2004
    missed.append(
        _told("peak memory, MB", inspect.megabytes, GOALS["memory"], good=inspect.megabytes <= 120)  # noqa: PLR2004
    )
    if "loading" in costs:
        ratio = costs["loading"].seconds / inspect.seconds
        missed.append(_told("loading / inspect", ratio, GOALS["loading"], good=ratio >= 8))  # noqa: PLR2004
    _say(f"drafter of {size / 1e9:.1f} GB, sparse; {arguments.runs} runs each, medians")
    if not arguments.no_values:
        missed.append(values.report(arguments.folder, arguments.runs))
    return int(any(missed))


def _told(what: str, value: float, goal: str, *, good: bool) -> bool:
    _say(f"{what:18} {value:7.1f}   goal: {goal}   {'reached' if good else 'MISSED'}")
    return not good


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
