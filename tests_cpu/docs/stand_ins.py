"""What pages work on: folders that look like a trainer's output, and a server that runs already."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from eagle3_checks.reference.defects import DEFECTS
from eagle3_checks.reference.tensorfile import read_tensors, write_tensors
from eagle3_checks.shipped import shipped
from tests_cpu.layouts.layout import layouts, write
from tests_cpu.plugin import fake_sglang

TINY = shipped("fixtures", "tiny")
DOCUMENTED_URL = "http://127.0.0.1:30000"
"""The address that pages write; each test has a port of its own."""
NESTED = frozenset(
    {"hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim"}
    | {"num_hidden_layers", "hidden_act", "rms_norm_eps", "rope_theta", "rope_scaling"}
    | {"max_position_embeddings", "vocab_size", "attention_bias", "torch_dtype", "model_type"}
)


def prepare(words: str, folder: Path, stack: ExitStack) -> Mapping[str, str]:
    """Put a stand-in in place; returns what to write in commands for what pages say.

    - ``layout NAME TARGET DRAFTER``: of fixtures/layouts, without weights;
    - ``pair DEFECT TARGET DRAFTER``: the tiny pair with a planted defect, or ``healthy``;
    - ``speculators TARGET DRAFTER``: the tiny pair as that trainer writes it;
    - ``clone``: what of the clone pages use;
    - ``server``: one that answers.

    Raises KeyError for any other.
    """
    kind, *rest = words.split()
    if kind == "server":
        return {DOCUMENTED_URL: _serve(stack)}
    if kind == "clone":
        (folder / "fixtures").symlink_to(TINY.parent)
        return {}
    makers: Mapping[str, Callable[..., tuple[Path, Path]]] = {
        "layout": _layout,
        "pair": _pair,
        "speculators": _speculators,
    }
    *given, target, drafter = rest
    made = makers[kind](folder / ".stand-in", *given)
    for source, name in zip(made, (target, drafter), strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        source.rename(folder / name)
    shutil.rmtree(folder / ".stand-in")
    return {}


def _layout(folder: Path, name: str) -> tuple[Path, Path]:
    return write(next(layout for layout in layouts() if layout.name == name), folder)


def _pair(folder: Path, defect: str) -> tuple[Path, Path]:
    (shutil.copytree if defect == "healthy" else DEFECTS[defect].plant)(TINY, folder)
    return folder / "target", folder / "drafter"


def _speculators(folder: Path) -> tuple[Path, Path]:
    """Write the tiny pair's drafter with the sizes nested and the layer called layers.0."""
    shutil.copytree(TINY, folder)
    drafter = folder / "drafter"
    flat = json.loads((drafter / "config.json").read_text())
    config = {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": flat["draft_vocab_size"],
        "tie_word_embeddings": False,
        "target_hidden_size": None,
        "eagle_aux_hidden_state_layer_ids": [2, 4, 5],
        "norm_before_residual": False,
        "transformer_layer_config": {name: flat[name] for name in flat if name in NESTED},
    }
    (drafter / "config.json").write_text(json.dumps(config, indent=2))
    tensors, metadata = read_tensors(drafter / "model.safetensors")
    renamed = {name.replace("midlayer.", "layers.0."): data for name, data in tensors.items()}
    write_tensors(renamed, drafter / "model.safetensors", metadata)
    return folder / "target", drafter


def _serve(stack: ExitStack) -> str:
    """Start a server that answers as a healthy pair would; it has no probe."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, fake_sglang.__file__, "--no-probe", "--port", str(port)]
    process = subprocess.Popen([*words, "--speculative-algorithm", "EAGLE3"], env=os.environ)
    stack.callback(process.wait)
    stack.callback(process.kill)
    url = f"http://127.0.0.1:{port}"
    _wait_for(url)
    return url


def _wait_for(url: str, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5)  # noqa: S310 - loopback
        except urllib.error.URLError:
            if time.monotonic() > end:
                raise
        else:
            return
