"""What is read from a release's source beside the targets' classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eagle3_checks.contract.derive.engine import engine
from eagle3_checks.contract.derive.loader import drafter_classes, llama_loader, mla_loader
from eagle3_checks.contract.derive.metrics import meta_info
from eagle3_checks.contract.derive.release import RefusedError
from eagle3_checks.contract.derive.source import Sources
from tests_cpu.contract.miniature import (
    FILES,
    LLAMA_EAGLE3,
    MODEL_CONFIG,
    RUNNER,
    TOKENIZER_MANAGER,
    miniature,
    sources_of,
)

GRAPHS = "sglang/srt/model_executor/cuda_graph_runner.py"
BARE = "class Runner:\n    def __init__(self):\n        self.model.set_eagle3_layers_to_capture()\n"
LATE = RUNNER.replace("        self.init_device_graphs()\n", "").replace(
    "        self.model.set_eagle3",
    "        self.init_device_graphs()\n        self.model.set_eagle3",
)


def with_file(path: str, text: str, **changes: str) -> Sources:
    files = {p: miniature(**changes).release.text(p) for p in miniature(**changes).release.paths}
    return sources_of({**files, path: text})


def test_the_miniature() -> None:
    assert llama_loader(miniature()) == {
        "layer_module": "midlayer",
        "renames": [],
        "unknown_shard": "dropped",
        "fc_bias": "from-config",
        "intermediate_size_mlp": False,
        "borrows_head": False,
        "requires_d2t": False,
        "pads_short_shards": True,
        "many_layers": False,
        "aux_count": "three",
        "fc_norm": False,
        "norm_before_fc": False,
        "norm_output": False,
        "fc_by_width": True,
    }
    assert mla_loader(miniature()) is None
    assert drafter_classes(miniature()) == ["LlamaForCausalLMEagle3"]
    facts = engine(miniature())
    assert facts["reads_aux_ids"]
    assert facts["reads_use_aux"]
    assert not facts["graphs_lose_ids"]
    assert facts["context_beyond_draft"] == "refused"
    assert facts["endpoints"] == ["/server_info", "/flush_cache"]
    assert facts["requires"] == {"torch": "9.0"}
    assert (facts["forward_hooks"], facts["return_aux_hidden_states"]) == (True, False)
    assert (facts["plugin_framework"], facts["cpu_eagle"]) == (False, False)


NUM_AUX = """
        self.num_aux_hidden_states = getattr(config, "num_aux_hidden_states", None)
        if self.num_aux_hidden_states is None:
            eagle_config = getattr(config, "eagle_config", None) or {}
            layer_ids = eagle_config.get("eagle_aux_hidden_state_layer_ids")
            self.num_aux_hidden_states = len(layer_ids) if layer_ids else 3
        self.fc ="""


@pytest.mark.parametrize(
    ("old", "new", "fact", "value"),
    [
        (', bias=getattr(config, "bias", False)', "", "fc_bias", "always"),
        (
            "self.midlayer = LlamaDecoderLayer(config, 0)",
            "self.layers = nn.ModuleList([LlamaDecoderLayer(config, i) for i in range(9)])",
            "layer_module",
            "layers",
        ),
        ("        self.hot_token_id = None", "        pass", "requires_d2t", True),
        ("config.num_hidden_layers != 1", "config.other != 1", "many_layers", True),
        (
            "config.intermediate_size)",
            "config.intermediate_size_mlp)",
            "intermediate_size_mlp",
            True,
        ),
        ("hidden_states.shape[-1] !=", "width !=", "fc_by_width", False),
        ("self.hot_token_id", "self.load_lm_head_from_target = True; self.x", "borrows_head", True),
        (
            "        self.hidden_size_in =",
            "        self.norm_output = 1; self.y =",
            "norm_output",
            True,
        ),
        (
            "if param_name in params_dict",
            "super().load_weights([])\n            if True",
            "unknown_shard",
            "key-error",
        ),
        (
            "        for name, loaded_weight",
            '        legacy_name_map = {"midlayer": "layers.0"}\n        for name, loaded_weight',
            "renames",
            [["midlayer", "layers.0"]],
        ),
    ],
)
def test_facts_of_the_llama_class(old: str, new: str, fact: str, value: Any) -> None:
    assert old in LLAMA_EAGLE3
    text = LLAMA_EAGLE3.replace(old, new)
    assert llama_loader(miniature(llama_eagle3=text))[fact] == value


def test_the_number_of_aux_states_from_the_config() -> None:
    text = LLAMA_EAGLE3.replace("        self.fc =", NUM_AUX, 1).replace(
        "self.hidden_size_in * 3", "self.hidden_size_in * self.num_aux_hidden_states"
    )
    assert llama_loader(miniature(llama_eagle3=text))["aux_count"] == "from-config"
    odd = text.replace("if layer_ids else 3", "if layer_ids else 4")
    with pytest.raises(RefusedError, match="resolved in an unknown way"):
        llama_loader(miniature(llama_eagle3=odd))


@pytest.mark.parametrize(
    ("read", "changes", "says"),
    [
        (
            llama_loader,
            {"llama_eagle3": ("hidden_size_in * 3", "hidden_size_in * 4")},
            "input width",
        ),
        (llama_loader, {"llama_eagle3": ('"bias", False', '"biased", False')}, "the bias of fc"),
        (llama_loader, {"llama_eagle3": ("self.midlayer", "self.middle")}, "0 of 'self.layers"),
        (
            llama_loader,
            {
                "llama_eagle3": (
                    "            if param_name",
                    '            name.replace("a", "b")\n            if param_name',
                )
            },
            "renames in an unknown way",
        ),
        (llama_loader, {"linear": ("class RowParallelLinear", "class Other")}, "RowParallel"),
        (engine, {"model_runner": ("eagle_config[", "other_config[")}, "is not clear"),
        (
            engine,
            {"model_runner": ("set_eagle3_layers_to_capture(self.ids)", "noop()")},
            "nothing calls",
        ),
        (engine, {"model_config": ("or is_in_ci()", "or maybe()")}, "is not understood"),
        (engine, {"model_config": ("raise ValueError", "print")}, "raises nothing"),
        (engine, {"model_config": ("> derived_context_len", ">= derived")}, "there is no"),
        (
            meta_info,
            {
                "tokenizer_manager": (
                    "speculative_num_draft_tokens - 1",
                    "speculative_num_draft_tokens",
                )
            },
            "whose meaning is not known",
        ),
        (
            meta_info,
            {
                "tokenizer_manager": (
                    'meta_info["spec_verify_ct"] =',
                    'meta_info["spec_accept_length"] =',
                )
            },
            "2 meanings",
        ),
    ],
)
def test_what_is_refused(
    read: Callable[[Sources], Any], changes: dict[str, tuple[str, str]], says: str
) -> None:
    texts = {path.rpartition("/")[2].removesuffix(".py"): text for path, text in FILES.items()}
    edited: dict[str, str] = {}
    for name, (old, new) in changes.items():
        assert old in texts[name]
        edited[name] = texts[name].replace(old, new)
    with pytest.raises(RefusedError, match=says):
        read(miniature(**edited))


def test_a_drafter_class_that_is_not_known_is_refused() -> None:
    text = LLAMA_EAGLE3.replace(
        "EntryClass = [", "class NewEagle3: pass\nEntryClass = [NewEagle3, "
    )
    with pytest.raises(RefusedError, match="drafter classes that are not known: NewEagle3"):
        drafter_classes(miniature(llama_eagle3=text))


def test_graphs_that_lose_the_ids() -> None:
    sources = with_file(GRAPHS, BARE, model_runner=LATE)
    assert engine(sources)["graphs_lose_ids"]


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        (with_file(GRAPHS, BARE), "graphs are not captured before"),
        (
            with_file("sglang/srt/model_executor/other.py", BARE, model_runner=LATE),
            "in an unknown place",
        ),
    ],
)
def test_calls_without_ids_that_are_not_understood(sources: Sources, says: str) -> None:
    with pytest.raises(RefusedError, match=says):
        engine(sources)


def test_a_context_that_was_only_warned_of() -> None:
    text = MODEL_CONFIG.replace(
        'LONGER_CONTEXT_LEN") or is_in_ci()', "LONGER_CONTEXT_LEN\", default='True')"
    )
    assert engine(miniature(model_config=text))["context_beyond_draft"] == "warned"


def test_the_environment_table_must_have_the_override_off() -> None:
    text = MODEL_CONFIG.replace(
        'get_bool_env_var("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")',
        "envs.SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN.get()",
    )
    path = "sglang/srt/environ.py"
    line = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN = EnvBool({})"
    off = with_file(path, line.format("False"), model_config=text)
    assert engine(off)["context_beyond_draft"] == "refused"
    with pytest.raises(RefusedError, match="is not understood"):
        engine(with_file(path, line.format("True"), model_config=text))


def test_a_cpu_backend_that_drafts_and_verifies() -> None:
    path = "sglang/srt/layers/attention/intel_amx_backend.py"
    drafts = "class IntelAMXMultiStepDraftBackend: pass\n"
    verifies = "forward_mode.is_target_verify()\n"
    assert engine(with_file(path, drafts + verifies))["cpu_eagle"]
    assert not engine(with_file(path, ""))["cpu_eagle"]
    with pytest.raises(RefusedError, match="but not both"):
        engine(with_file(path, drafts))


def test_the_plugin_framework() -> None:
    path = "sglang/srt/plugins/__init__.py"
    assert engine(with_file(path, 'GROUP = "sglang.srt.plugins"'))["plugin_framework"]


def test_the_roles_of_meta_info() -> None:
    found = meta_info(miniature())
    assert found["meta"] == {
        "verify": "spec_verify_ct",
        "correct": "spec_num_correct_drafts",
        "proposed": "spec_num_proposed_drafts",
        "histogram": "spec_correct_drafts_histogram",
        "accept_length": "spec_accept_length",
        "accept_rate": "spec_accept_rate",
        "rate_denominator": "draft-tokens - 1",
    }
    assert "spec_accept_rate" in found["meta_info_keys"]


def test_aliases_come_after_the_name() -> None:
    text = TOKENIZER_MANAGER + '        meta_info["spec_accepted_drafts"] = correct\n'
    found = meta_info(miniature(tokenizer_manager=text))
    assert found["meta"]["correct"] == "spec_num_correct_drafts"
    assert "spec_accepted_drafts" in found["meta_info_keys"]


def test_the_oldest_form_counts_verify_steps_alone() -> None:
    text = """
    class TokenizerManager:
        def handle(self, recv_obj):
            meta_info["spec_verify_ct"] = recv_obj.spec_verify_ct[i]
    """
    found = meta_info(miniature(tokenizer_manager=text))
    assert found["meta_info_keys"] == ["spec_verify_ct"]
    assert found["meta"]["accept_length"] is None


MLA = """
class Eagle3MLAModel(nn.Module):
    def __init__(self, config):
        self.fc = {layer}(8, 8, bias=getattr(config, "bias", False))

    def forward(self):
        if hidden_states.shape[-1] != embeds.shape[-1]:
            pass
"""


@pytest.mark.parametrize(("layer", "split"), [("ColumnParallelLinear", True), ("nn.Linear", False)])
def test_the_mla_class(layer: str, split: bool) -> None:  # noqa: FBT001
    found = mla_loader(miniature(kimi_k25_eagle3=MLA.format(layer=layer)))
    assert found == {
        "fc_norm": False,
        "norm_output": False,
        "fc_split": split,
        "fc_by_width": True,
    }


def test_an_mla_class_of_another_bias_is_refused() -> None:
    text = MLA.format(layer="nn.Linear").replace('"bias", False', '"bias", True')
    with pytest.raises(RefusedError, match="the bias of fc"):
        mla_loader(miniature(kimi_k25_eagle3=text))
