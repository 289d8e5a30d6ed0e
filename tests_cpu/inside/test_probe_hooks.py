"""The probe as a plugin of a stand-in SGLang, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROBE = Path(__file__).parents[2] / "eagle3_checks" / "inside" / "probe"

LLAMA = """
from torch import nn
class LlamaForCausalLM(nn.Module):
    def forward(self, ids, batch): return "out"
    def set_embed(self, embed): self.model.embed_tokens.weight = embed
    def set_embed_and_head(self, embed, head): pass
    def set_eagle3_layers_to_capture(self, layer_ids=None): self.layers_to_capture = [2, 4, 5]
"""
DRAFTER = """
from torch import nn
from sglang.srt.models.llama import LlamaForCausalLM
class LlamaForCausalLMEagle3(LlamaForCausalLM):
    def __init__(self):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(4, 2)
    def load_weights(self, weights):
        for name, tensor in weights: self.model.embed_tokens.weight.data.copy_(tensor)
"""
SERVE = """
import sys, torch
from enum import IntEnum
from importlib.metadata import entry_points
from types import SimpleNamespace
[plugin] = [p for p in entry_points(group="sglang.srt.plugins") if p.name == "eagle3_probe"]
if "late" in sys.argv: import sglang.srt.models.llama_eagle3
plugin.load()()
assert ("sglang.srt.models.llama" in sys.modules) == ("late" in sys.argv)
from sglang.srt.models.llama import LlamaForCausalLM
from sglang.srt.models.llama_eagle3 import LlamaForCausalLMEagle3
drafter = LlamaForCausalLMEagle3()
drafter.load_weights([("embed", torch.ones(4, 2))])
drafter.set_embed(torch.nn.Parameter(torch.ones(4, 2)))
LlamaForCausalLM().set_eagle3_layers_to_capture()
mode = IntEnum("ForwardMode", ["EXTEND"]).EXTEND
spec_info = SimpleNamespace(hidden_states=torch.zeros(1, 6))
batch = SimpleNamespace(forward_mode=mode, spec_info=spec_info)
assert drafter.forward(None, batch) == "out"
assert LlamaForCausalLM().forward(None, batch) == "out"
"""


@pytest.fixture
def sglang(tmp_path: Path) -> Path:
    """A package with SGLang's name and the modules that the probe looks for."""
    root = tmp_path / "site"
    models = root / "sglang" / "srt" / "models"
    models.mkdir(parents=True)
    for folder in (models, models.parent, models.parent.parent):
        (folder / "__init__.py").touch()
    (models / "llama.py").write_text(LLAMA)
    (models / "llama_eagle3.py").write_text(DRAFTER)
    info = root / "sglang-9.8.7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 9.8.7\n")
    return root


def serve(sglang: Path, *arguments: str, prefix: Path | None) -> list[dict[str, Any]]:
    """Run the stand-in server with the probe on its PYTHONPATH; returns the facts."""
    environment = os.environ | {"PYTHONPATH": f"{sglang}{os.pathsep}{PROBE}"}
    environment.pop("EAGLE3_PROBE_FILE", None)
    if prefix is not None:
        environment["EAGLE3_PROBE_FILE"] = str(prefix)
    command = [sys.executable, "-c", SERVE, *arguments]
    subprocess.run(command, check=True, env=environment, timeout=120)
    return [
        json.loads(line)
        for path in sglang.parent.glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]


@pytest.mark.parametrize("plugin_comes", ["early", "late"])
def test_plugin_watches_the_classes_of_sglang(sglang: Path, plugin_comes: str) -> None:
    facts = serve(sglang, plugin_comes, prefix=sglang.parent / "facts")
    assert [fact["fact"] for fact in facts] == [
        "hello",
        "load",
        "draft_vocab",
        "shared",
        "capture",
        "forward",
    ]
    by_name = {fact["fact"]: fact for fact in facts}
    assert by_name["hello"]["sglang"] == "9.8.7"
    assert by_name["hello"]["argv0"] == "-c"
    assert by_name["load"]["tensors"][0]["into"] == ["model.embed_tokens.weight"]
    assert by_name["shared"]["parameters"] == ["model.embed_tokens.weight"]
    assert by_name["capture"]["class"] == "LlamaForCausalLM"
    assert by_name["forward"]["class"] == "LlamaForCausalLMEagle3"
    assert by_name["forward"]["width"] == 6


def test_plugin_does_nothing_without_its_variable(sglang: Path) -> None:
    assert serve(sglang, prefix=None) == []
