"""CFG012 to CFG022: types of numbers, quantisation, norm flags and counts."""

from __future__ import annotations

from typing import Any

from eagle3_checks.profile import Server
from tests_cpu.rules.cases.case import Case, alike, fires, healthy, skips, warns
from tests_cpu.rules.cases.config import GPU, served
from tests_cpu.rules.cases.files import SECOND, TWO
from tests_cpu.rules.cases.tensors import IDS, weight, writing

HALF = {"torch_dtype": "float16"}
FC_NORM: dict[str, Any] = {f"fc_norm.{i}.weight": weight(16) for i in range(3)}
AUX_NORM: dict[str, Any] = {f"aux_norm_{n}.weight": weight(16) for n in ("low", "mid", "high")}
INPUT_NORM: dict[str, Any] = {"input_norm.weight": weight(48)}
DOWN = "midlayer.mlp.down_proj.weight"
FP8 = {"quantization_config": {"quant_method": "fp8"}}
QUANTISED = {
    DOWN: weight(16, 24, dtype="F8_E4M3"),
    "midlayer.mlp.down_proj.weight_scale": weight(1),
}
NO_AUX = {"eagle_config": {"use_aux_hidden_state": False}}
NO_FC: dict[str, Any] = {"fc.weight": ...}


def eagle(**settings: Any) -> dict[str, Any]:
    return {"eagle_config": settings}


def without_map(**more: Any) -> dict[str, Any]:
    """Return changes that make the file one that SpecForge does not write: it has no t2d."""
    return {"t2d": ..., **more}


CASES: tuple[Case, ...] = (
    warns("CFG012", "serves it in float16; the target states bfloat16", draft=HALF),
    warns("CFG012", "the drafter's config states none", draft={"torch_dtype": ...}),
    warns("CFG012", "states float32, so", draft={"torch_dtype": "float32"}, serving=Server()),
    fires("CFG012", "without a --dtype for both the server stops", draft=HALF, serving=GPU),
    fires("CFG012", "is served in bfloat16", draft=HALF, serving=served("--dtype", "auto")),
    healthy("CFG012", "bfloat16"),
    alike("CFG012", draft={"torch_dtype": ..., "dtype": "bfloat16"}),
    alike("CFG012", "(--dtype)", draft=HALF, serving=served("--dtype", "float16")),
    alike("CFG012", "on the CPU", draft=HALF, serving=Server(device="cpu")),
    alike("CFG012", draft={"torch_dtype": "float32"}, target=HALF),
    alike("CFG012", target={"torch_dtype": ..., "model_type": "gemma3"}),
    warns(
        "CFG013",
        "the matrices have several types: 8 BF16, 1 F32",
        tensors={"fc.weight": weight(16, 48, dtype="F32")},
    ),
    warns("CFG013", "torch_dtype is float16, so SGLang serves the drafter in float16", draft=HALF),
    warns("CFG013", "torch_dtype is missing, so SGLang", draft={"torch_dtype": ...}),
    healthy("CFG013", "9 weights in bfloat16"),
    alike("CFG013", tensors={"norm.weight": weight(16, dtype="F32")}),
    fires(
        "CFG014",
        "1 weight stored as F8_E4M3, as midlayer.mlp.down_proj.weight, but config.json has no",
        tensors=QUANTISED,
    ),
    fires(
        "CFG014",
        "1 quantised weight without a scale: midlayer.mlp.down_proj.weight",
        draft=FP8,
        tensors={DOWN: weight(16, 24, dtype="F8_E4M3")},
    ),
    fires(
        "CFG014",
        "kv_b_proj.weight is quantised; Eagle3DeepseekV2ForCausalLM splits it",
        mla=True,
        draft=FP8,
        tensors={
            "midlayer.self_attn.kv_b_proj.weight": weight(28, 10, dtype="F8_E4M3"),
            "midlayer.self_attn.kv_b_proj.weight_scale": weight(1),
        },
    ),
    warns("CFG014", "config.json says that the drafter is quantised (fp8)", draft=FP8),
    healthy("CFG014", "no weight is quantised"),
    alike("CFG014", "each with a scale", draft=FP8, tensors=QUANTISED),
    fires("CFG014", "names no quant_method", draft={"quantization_config": {}}),
    fires("CFG014", "names no quant_method", draft={"quantization_config": {"bits": 4}}),
    fires("CFG014", "names no quant_method", draft={"quantization_config": {"quant_method": None}}),
    warns(
        "CFG014",
        "quant_algo is null",
        draft={"quantization_config": {"quant_method": "modelopt", "quant_algo": None}},
    ),
    alike(
        "CFG014",
        tensors=QUANTISED,
        edit=writing("drafter", "hf_quant_config.json", {"quantization": {"quant_algo": "FP8"}}),
    ),
    fires(
        "CFG015",
        "--quantization awq is given and holds for the drafter too: SGLang finds no config file",
        serving=served("--quantization", "awq"),
    ),
    warns("CFG015", "quantises the drafter's plain weights", serving=served("--quantization=fp8")),
    healthy("CFG015", "the drafter's own: none", serving=GPU),
    alike(
        "CFG015",
        serving=served(
            "--quantization", "awq", "--speculative-draft-model-quantization", "unquant"
        ),
    ),
    alike("CFG015", "fp8", draft=FP8, serving=served("--quantization", "fp8")),
    skips("CFG015", "needs the server flags of a profile"),
    fires(
        "CFG016",
        "fc_norm.2.weight is missing: SGLang norms the aux states by ones",
        draft={"fc_norm": True},
        tensors={**FC_NORM, "fc_norm.2.weight": ...},
    ),
    fires(
        "CFG016",
        "fc_norm is true; SGLang 0.5.11 ignores it: it is read from 0.5.12 on",
        version="0.5.11",
        draft={"fc_norm": True},
        tensors=FC_NORM,
    ),
    fires(
        "CFG016",
        "it is read from 0.5.13 on",
        version="0.5.12",
        mla=True,
        draft={"fc_norm": True},
        tensors=FC_NORM,
    ),
    fires("CFG016", "input_norm.weight is missing", draft={"norm_before_fc": True}),
    fires(
        "CFG016",
        "Eagle3DeepseekV2ForCausalLM has it in no version",
        mla=True,
        draft={"norm_before_fc": True},
        tensors=INPUT_NORM,
    ),
    fires(
        "CFG016",
        "eagle_config.fc_norm is true; SGLang reads fc_norm at the top",
        draft=eagle(fc_norm=True),
    ),
    healthy("CFG016", "no norm before fc"),
    alike("CFG016", draft={"use_aux_norm": True}, tensors=AUX_NORM),
    alike("CFG016", draft=eagle(norm_before_fc=True), tensors=INPUT_NORM),
    alike("CFG016", draft={"norm_before_fc": True, **eagle(norm_before_fc=False)}),
    alike("CFG016", mla=True, draft={"fc_norm": True}, tensors=FC_NORM),
    warns(
        "CFG017",
        "norm_output is true, and the file looks like SpecForge's",
        draft={"norm_output": True},
    ),
    warns("CFG017", "gave the head an unnormed state too", draft={"norm_output": False}),
    fires(
        "CFG017",
        "norm_output is true; SGLang 0.5.11 ignores it",
        version="0.5.11",
        draft={"norm_output": True},
    ),
    fires("CFG017", "eagle_config.norm_output is true", draft=eagle(norm_output=True)),
    healthy("CFG017", "not stated"),
    alike("CFG017", "norm_output is true", draft={"norm_output": True, "_torchspec_version": "1"}),
    alike("CFG017", draft={"norm_output": True}, tensors=without_map()),
    alike("CFG017", draft={"norm_output": True}, layer="layers.0"),
    fires(
        "CFG018",
        "norm_before_residual is true; SGLang ignores it",
        draft={"norm_before_residual": True},
    ),
    fires("CFG018", "norm_before_residual is true", draft=eagle(norm_before_residual=True)),
    warns("CFG018", "is not stated in a config of speculators", draft={"speculators_config": {}}),
    healthy("CFG018"),
    alike("CFG018", draft={"speculators_config": {}, "norm_before_residual": False}),
    alike("CFG018", draft={"norm_before_residual": False}),
    warns(
        "CFG019",
        "eagle_config.use_last_layernorm is false; SGLang norms the last state",
        draft=eagle(use_last_layernorm=False),
    ),
    warns("CFG019", "eagle_config.parallel_draft_step is 4", draft=eagle(parallel_draft_step=4)),
    warns(
        "CFG019",
        "sliding_window is 64; SGLang gives the drafter full attention",
        draft={"sliding_window": 64, "layer_types": ["sliding_attention"]},
    ),
    healthy("CFG019"),
    alike("CFG019", draft={"sliding_window": 64, "use_sliding_window": False}),
    alike(
        "CFG019",
        draft=eagle(
            use_last_layernorm=True,
            use_mtp_layernorm=False,
            use_input_layernorm_in_first_layer=True,
            parallel_draft_step=1,
        ),
    ),
    fires(
        "CFG020",
        "fc is built for 4 aux states, but the default ids capture 3",
        draft={"num_aux_hidden_states": 4},
    ),
    fires(
        "CFG020",
        f"fc is built for 3 aux states, but eagle_config.{IDS} capture 2",
        draft=eagle(**{IDS: [1, 3, 3]}),
        target={"architectures": ["LlamaForCausalLMOfAnother"]},
    ),
    fires(
        "CFG020",
        "fc is built for 4 aux states, but the default ids capture 3",
        mla=True,
        draft={IDS: [1, 2, 3, 4]},
    ),
    warns(
        "CFG020",
        f"is stated as {IDS} 4, fc.weight 3; SGLang 0.5.23 builds and captures 3",
        draft={IDS: [1, 2, 3, 4]},
    ),
    skips("CFG020", "counted by FUS005", draft={"eagle_config": {IDS: [1, 1, 3]}}),
    healthy("CFG020", "3 (fc.weight 3)"),
    alike(
        "CFG020",
        draft={"num_aux_hidden_states": 5, **eagle(**{IDS: [0, 1, 2, 3, 4]})},
        tensors={"fc.weight": weight(16, 80)},
    ),
    skips("CFG020", "takes no aux states", draft=NO_AUX, tensors=NO_FC),
    fires("CFG021", "use_aux_hidden_state is false, but fc.weight is [16, 48]", draft=NO_AUX),
    healthy("CFG021"),
    alike("CFG021", draft=NO_AUX, tensors=NO_FC),
    alike("CFG021", version="0.5.7", draft=NO_AUX),
    fires(
        "CFG022",
        "num_hidden_layers is 32; the file has 1 decoder layer: SGLang 0.5.23 leaves",
        draft={"num_hidden_layers": 32},
    ),
    fires("CFG022", "num_hidden_layers is 1; the file has 2 decoder layers", tensors=SECOND),
    healthy("CFG022", "1 layer"),
    alike("CFG022", "2 layers", draft=TWO, tensors=SECOND),
    skips("CFG022", "no decoder layer under a known name", layer="decoder"),
)
