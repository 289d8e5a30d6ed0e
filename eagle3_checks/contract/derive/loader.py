"""How the drafter classes of a release are built and filled."""

from __future__ import annotations

import ast
from pathlib import PurePosixPath
from typing import Any

from eagle3_checks.contract.derive.release import RefusedError
from eagle3_checks.contract.derive.reviewed import plain
from eagle3_checks.contract.derive.source import MODELS, Sources, walk
from eagle3_checks.contract.version import LLAMA, MLA

LLAMA_PATH = f"{MODELS}/llama_eagle3.py"
MLA_PATH = f"{MODELS}/kimi_k25_eagle3.py"
LINEAR_PATH = "sglang/srt/layers/linear.py"
BYPASS = "hidden_states.shape[-1] != embeds.shape[-1]"
_KNOWN = {LLAMA, MLA}
_BIAS = "getattr(config, 'bias', False)"


def drafter_classes(sources: Sources) -> list[str]:
    """Return the architectures that drafters are served under; an unknown one is refused."""
    found = [
        name
        for path in sources.release.folder(MODELS)
        if "eagle3" in PurePosixPath(path).stem
        for name in sources.module(path).entries
    ]
    if unknown := set(found) - _KNOWN:
        raise RefusedError(f"drafter classes that are not known: {', '.join(sorted(unknown))}")
    return sorted(found)


def llama_loader(sources: Sources) -> dict[str, Any]:
    """Return the facts of ``LlamaForCausalLMEagle3``."""
    build = _method(sources, LLAMA_PATH, "LlamaModel", "__init__")
    layer = plain(_method(sources, LLAMA_PATH, "LlamaDecoderLayer", "__init__"))
    forward = plain(_method(sources, LLAMA_PATH, "LlamaModel", "forward"))
    whole = plain(_method(sources, LLAMA_PATH, LLAMA, "__init__"))
    load = _method(sources, LLAMA_PATH, LLAMA, "load_weights")
    text, loading = plain(build), plain(load)
    return {
        "layer_module": _either(
            text, {"self.layers = nn.ModuleList(": "layers", "self.midlayer = ": "midlayer"}
        ),
        "renames": _renames(load),
        "unknown_shard": _either(
            loading,
            {"if param_name in params_dict": "dropped", "super().load_weights(": "key-error"},
        ),
        "fc_bias": _fc_bias(build),
        "intermediate_size_mlp": "config.intermediate_size_mlp" in layer,
        "borrows_head": "self.load_lm_head_from_target = True" in whole,
        "requires_d2t": "self.hot_token_id = None" not in whole,
        "pads_short_shards": _pads(sources),
        "many_layers": "config.num_hidden_layers != 1" not in whole + text,
        "aux_count": _aux_count(text),
        "fc_norm": "self.fc_norm = nn.ModuleList(" in text,
        "norm_before_fc": "self.input_norm = RMSNorm(" in text,
        "norm_output": "self.norm_output = " in text,
        "fc_by_width": BYPASS in forward,
    }


def mla_loader(sources: Sources) -> dict[str, Any] | None:
    """Return the facts of ``Eagle3DeepseekV2ForCausalLM``, None where the release has it not."""
    if MLA_PATH not in sources.release.paths:
        return None
    build = _method(sources, MLA_PATH, "Eagle3MLAModel", "__init__")
    forward = plain(_method(sources, MLA_PATH, "Eagle3MLAModel", "forward"))
    text = plain(build)
    if ast.unparse(_keyword(_fc(build)[0], "bias") or ast.Constant(None)) != _BIAS:
        raise RefusedError(f"the bias of fc is not {_BIAS}, {MLA_PATH}")
    return {
        "fc_norm": "self.fc_norm = nn.ModuleList(" in text,
        "norm_output": "self.norm_output = " in text,
        "fc_split": _either(
            text, {"self.fc = ColumnParallelLinear(": True, "self.fc = nn.Linear(": False}
        ),
        "fc_by_width": BYPASS in forward,
    }


def _method(sources: Sources, path: str, owner: str, name: str) -> ast.FunctionDef:
    """Return a method that the class itself defines."""
    node = sources.module(path).classes.get(owner)
    found = [n for n in node.body if isinstance(n, ast.FunctionDef)] if node else []
    method = next((n for n in found if n.name == name), None)
    if method is None:
        raise RefusedError(f"there is no {owner}.{name} in {path}")
    return method


def _either(text: str, values: dict[str, Any]) -> Any:
    """Return the value of the one piece of text that is there."""
    found = [value for piece, value in values.items() if piece in text]
    if len(found) != 1:
        raise RefusedError(f"{len(found)} of {', '.join(map(repr, values))} were found")
    return found[0]


def _renames(load: ast.FunctionDef) -> list[list[str]]:
    for node in walk(load, ast.Assign):
        if ast.unparse(node.targets[0]) == "legacy_name_map":
            return [list(pair) for pair in ast.literal_eval(node.value).items()]
    if ".replace(" in plain(load).replace("name.replace(weight_name, param_name)", ""):
        raise RefusedError(f"load_weights renames in an unknown way, {LLAMA_PATH}:{load.lineno}")
    return []


def _fc(build: ast.FunctionDef) -> list[ast.Call]:
    return [
        node.value
        for node in walk(build, ast.Assign)
        if ast.unparse(node.targets[0]) == "self.fc" and isinstance(node.value, ast.Call)
    ]


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def _fc_bias(build: ast.FunctionDef) -> str:
    """Say whether ``fc`` always has a bias (torch's default) or by the config's ``bias``."""
    seen = {ast.unparse(b) if (b := _keyword(c, "bias")) else "" for c in _fc(build)}
    known = {"": "always", _BIAS: "from-config"}
    if len(seen) != 1 or not seen <= set(known):
        raise RefusedError(f"the bias of fc is {' or '.join(sorted(seen))}, {LLAMA_PATH}")
    return known[seen.pop()]


def _aux_count(text: str) -> str:
    if "self.hidden_size_in * self.num_aux_hidden_states, config.hidden_size" in text:
        wanted = (
            "getattr(config, 'num_aux_hidden_states', None)",
            "eagle_config.get('eagle_aux_hidden_state_layer_ids')",
            "len(layer_ids) if layer_ids else 3",
        )
        if not all(piece in text for piece in wanted):
            raise RefusedError(f"num_aux_hidden_states is resolved in an unknown way, {LLAMA_PATH}")
        return "from-config"
    pieces = ("hidden_size_in * 3, config.hidden_size", "hidden_size * 3, config.hidden_size")
    if any(piece in text for piece in pieces):
        return "three"
    raise RefusedError(f"the input width of fc is computed in an unknown way, {LLAMA_PATH}")


def _pads(sources: Sources) -> bool:
    """Whether gate, up, down and o weights that are too narrow are padded off the CPU."""
    owners = ("MergedColumnParallelLinear", "RowParallelLinear")
    found = {
        "pad_or_narrow_weight(" in plain(_method(sources, LINEAR_PATH, owner, "weight_loader"))
        for owner in owners
    }
    others = ("QKVParallelLinear", "ColumnParallelLinear")
    if len(found) != 1 or any(
        "pad_or_narrow_weight(" in plain(_method(sources, LINEAR_PATH, owner, "weight_loader"))
        for owner in others
    ):
        raise RefusedError(f"not just {' and '.join(owners)} pad weights, {LINEAR_PATH}")
    return found.pop()
