"""A miniature of SGLang's source: as much as the derivation reads, and no more."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

from eagle3_checks.contract.derive.release import Release
from eagle3_checks.contract.derive.source import Sources

MODELS = "sglang/srt/models"
SETTER = "set_eagle3_layers_to_capture"

LLAMA_EAGLE3 = """
from sglang.srt.models.llama import LlamaForCausalLM

class LlamaDecoderLayer(nn.Module):
    def __init__(self, config, layer_id=0):
        self.mlp = LlamaMLP(config.hidden_size, config.intermediate_size)

class LlamaModel(nn.Module):
    def __init__(self, config):
        self.hidden_size_in = config.hidden_size
        self.fc = torch.nn.Linear(
            self.hidden_size_in * 3, config.hidden_size, bias=getattr(config, "bias", False)
        )
        self.midlayer = LlamaDecoderLayer(config, 0)

    def forward(self, input_ids, forward_batch):
        if hidden_states.shape[-1] != embeds.shape[-1]:
            hidden_states = self.fc(hidden_states)
        return hidden_states

class LlamaForCausalLMEagle3(LlamaForCausalLM):
    def __init__(self, config):
        if self.config.num_hidden_layers != 1:
            raise ValueError("one layer")
        self.hot_token_id = None

    def load_weights(self, weights):
        for name, loaded_weight in weights:
            if param_name in params_dict:
                param = params_dict[param_name]

EntryClass = [LlamaForCausalLMEagle3]
"""
LLAMA = """
class LlamaModel(nn.Module):
    def __init__(self, config):
        self.layers_to_capture = []

    def forward(self, input_ids):
        for i in range(self.start_layer, self.end_layer):
            if i in self.layers_to_capture:
                aux_hidden_states.append(hidden_states)

class LlamaForCausalLM(nn.Module):
    def __init__(self, config):
        self.model = self._init_model(config)

    def _init_model(self, config):
        return LlamaModel(config)

    def set_eagle3_layers_to_capture(self, layer_ids=None):
        if not self.pp_group.is_last_rank:
            return
        self.capture_aux_hidden_states = True
        if layer_ids is None:
            num_layers = self.config.num_hidden_layers
            self.model.layers_to_capture = [2, num_layers // 2, num_layers - 3]
        else:
            self.model.layers_to_capture = [val + 1 for val in layer_ids]

class Phi3ForCausalLM(LlamaForCausalLM):
    pass

EntryClass = [LlamaForCausalLM, Phi3ForCausalLM]
"""
LINEAR = """
class MergedColumnParallelLinear:
    def weight_loader(self, param, loaded_weight):
        loaded_weight = pad_or_narrow_weight(loaded_weight)

class RowParallelLinear:
    def weight_loader(self, param, loaded_weight):
        loaded_weight = pad_or_narrow_weight(loaded_weight)

class QKVParallelLinear:
    def weight_loader(self, param, loaded_weight):
        pass

class ColumnParallelLinear:
    def weight_loader(self, param, loaded_weight):
        pass
"""
RUNNER = """
class ModelRunner:
    def initialize(self, server_args):
        try:
            eagle_config = getattr(config, "eagle_config", None)
            self.use = eagle_config.get("use_aux_hidden_state", True)
            self.ids = eagle_config["eagle_aux_hidden_state_layer_ids"]
        except Exception:
            self.ids = None
        self.model.set_eagle3_layers_to_capture(self.ids)
        self.init_device_graphs()
"""
MODEL_CONFIG = """
class ModelConfig:
    def derive(self, context_length):
        if context_length > derived_context_len:
            if get_bool_env_var("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN") or is_in_ci():
                self.context_len = context_length
            else:
                raise ValueError("too long")
"""
TOKENIZER_MANAGER = """
class TokenizerManager:
    def _calculate_spec_decoding_metrics(self, meta_info, recv_obj, i):
        proposed = recv_obj.spec_verify_ct[i] * (
            self.server_args.speculative_num_draft_tokens - 1
        )
        correct = recv_obj.spec_num_correct_drafts[i]
        meta_info["spec_accept_rate"] = correct / proposed
        meta_info["spec_accept_length"] = (
            recv_obj.completion_tokens[i] / recv_obj.spec_verify_ct[i]
        )
        meta_info["spec_num_correct_drafts"] = correct
        meta_info["spec_num_proposed_drafts"] = proposed
        meta_info["spec_verify_ct"] = recv_obj.spec_verify_ct[i]
        meta_info["spec_correct_drafts_histogram"] = recv_obj.spec_correct_drafts_histogram[i]
"""
HTTP_SERVER = """
@app.get("/server_info")
async def server_info():
    pass

@app.api_route("/flush_cache", methods=["GET", "POST"])
async def flush_cache():
    pass
"""
SERVER_ARGS = """
class ServerArgs:
    forward_hooks: Optional[list] = None
"""
FILES: Mapping[str, str] = {
    f"{MODELS}/llama_eagle3.py": LLAMA_EAGLE3,
    f"{MODELS}/llama.py": LLAMA,
    "sglang/srt/layers/linear.py": LINEAR,
    "sglang/srt/model_executor/model_runner.py": RUNNER,
    "sglang/srt/configs/model_config.py": MODEL_CONFIG,
    "sglang/srt/managers/tokenizer_manager.py": TOKENIZER_MANAGER,
    "sglang/srt/entrypoints/http_server.py": HTTP_SERVER,
    "sglang/srt/server_args.py": SERVER_ARGS,
}


def miniature(**changes: str) -> Sources:
    """Return the miniature with files added or changed, by the last part of their path."""
    files = dict(FILES)
    for name, text in changes.items():
        known = [path for path in files if path.endswith(f"/{name}.py")]
        files[known[0] if known else f"{MODELS}/{name}.py"] = textwrap.dedent(text)
    return sources_of(files)


def sources_of(files: Mapping[str, str]) -> Sources:
    """Return sources held in memory."""
    release = Release(
        version="9.9.9",
        sha256="0" * 64,
        requires=("torch==9.0",),
        paths=frozenset(files),
        read=lambda path: files[path].encode(),
    )
    return Sources(release)


def write_wheel(folder: Path, version: str = "9.9.9", **changes: str) -> Path:
    """Write the miniature as a wheel."""
    sources = miniature(**changes)
    wheel = folder / f"sglang-{version}-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        for path in sources.release.paths:
            archive.writestr(path, sources.release.read(path))
        archive.writestr(
            f"sglang-{version}.dist-info/METADATA",
            f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n"
            'Requires-Dist: torch==9.0\nRequires-Dist: torch==8.0; extra == "old"\n'
            'Requires-Dist: transformers==5.0; extra == "srt"\nRequires-Dist: sgl-kernel\n',
        )
    return wheel
