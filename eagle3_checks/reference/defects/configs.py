"""Defects of config.json and of launch flags."""

from __future__ import annotations

from functools import partial
from typing import Any

from eagle3_checks.reference.defects.defect import Defect
from eagle3_checks.reference.defects.planting import GONE, added, config, one, planting
from eagle3_checks.reference.defects.values import half
from eagle3_checks.reference.tensorfile import RawTensor

Config = partial(Defect, where="config")
Flag = partial(Defect, where="flag")
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
SIZES = ("model_type", "hidden_size", "intermediate_size", "num_attention_heads")
NESTED: dict[str, Any] = {
    **dict.fromkeys(SIZES, GONE),
    "architectures": ["Eagle3Speculator"],
    "transformer_layer_config": {
        "model_type": "llama",
        "hidden_size": 128,
        "intermediate_size": 512,
        "num_attention_heads": 4,
    },
}


def _fp8(tensor: RawTensor) -> RawTensor:
    """Return a tensor of that shape in 8-bit floats, all one."""
    count = len(tensor.data) // 2
    return RawTensor("F8_E4M3", tensor.shape, b"\x38" * count)


DEFECTS: tuple[Defect, ...] = (
    Config(
        name="hidden-size-text",
        title="hidden_size is a text",
        kind="config-types",
        cause="files",
        codes=("SRC002",),
        plant=planting(config(hidden_size="128")),
    ),
    Config(
        name="context-short",
        title="max_position_embeddings 256, below what the target serves",
        kind="context-short",
        cause="context",
        codes=("CFG002",),
        settings={"server.device": "cuda"},
        plant=planting(config(max_position_embeddings=256)),
    ),
    Config(
        name="draft-vocab-none",
        title="draft_vocab_size 0",
        kind="vocab-size-range",
        cause="config",
        codes=("CFG003",),
        warns=("VOC005",),
        plant=planting(config(draft_vocab_size=0)),
    ),
    Flag(
        name="algorithm-eagle",
        title="EAGLE-3 drafter served under EAGLE: one hidden state, fc skipped in silence",
        kind="algorithm-eagle",
        cause="algorithm",
        codes=("CFG004",),
        served_codes=("WIR003", "ACC001"),
        served=True,
        settings={"speculation.algorithm": "EAGLE"},
    ),
    Config(
        name="config-nested",
        title="sizes in transformer_layer_config alone, as another library writes them",
        kind="config-nested",
        cause="config",
        codes=("CFG001", "CFG005", "CFG006"),
        plant=planting(config(**NESTED)),
    ),
    Config(
        name="use-cache-null",
        title="use_cache null, where the engine wants true or false",
        kind="config-null",
        cause="config",
        codes=("CFG007",),
        plant=planting(config(use_cache=None)),
    ),
    Config(
        name="heads-8",
        title="8 heads of 16 stated, 4 of 32 trained: the shapes are the same",
        kind="head-dim",
        cause="attention-heads",
        warns=("CFG008",),
        served=True,
        plant=planting(config(num_attention_heads=8, num_key_value_heads=4, head_dim=16)),
    ),
    Config(
        name="head-dim-lost",
        title="head_dim 64 trained, 32 stated: q and o have other sizes",
        kind="head-dim",
        cause="attention-heads",
        codes=("CFG008", "KEY004"),
        plant=planting(config(num_attention_heads=4, head_dim=16)),
    ),
    Config(
        name="rope-other-schema",
        title="theta in rope_parameters alone, which versions before 0.5.10 pass over",
        kind="rope-schema",
        cause="rope",
        codes=("CFG009",),
        warns=("CFG011",),
        sglang="0.5.9",
        plant=planting(
            config(
                rope_theta=GONE, rope_parameters={"rope_theta": 500000.0, "rope_type": "default"}
            ),
            config("target", rope_theta=500000.0),
        ),
    ),
    Config(
        name="rope-type-unknown",
        title="a RoPE type that SGLang does not build",
        kind="rope-type",
        cause="rope",
        codes=("CFG010",),
        warns=("CFG011",),
        plant=planting(config(rope_scaling={"type": "su"})),
    ),
    Config(
        name="rope-theta",
        title="rope_theta 10 stated, 10000 trained",
        kind="rope-theta",
        cause="rope",
        warns=("CFG011",),
        served_codes=("ACC005",),
        served=True,
        plant=planting(config(rope_theta=10.0)),
    ),
    Config(
        name="rope-theta-large",
        title="rope_theta 1000000 stated, 10000 trained",
        kind="rope-theta",
        cause="rope",
        warns=("CFG011",),
        plant=planting(config(rope_theta=1e6)),
    ),
    Config(
        name="rope-scaling",
        title="positions divided by 64, which training did not do",
        kind="rope-scaling",
        cause="rope",
        warns=("CFG011",),
        served_codes=("ACC005",),
        served=True,
        plant=planting(config(rope_scaling={"rope_type": "linear", "factor": 64.0})),
    ),
    Config(
        name="dtype-other",
        title="float32 stated, the target is float16: the server stops on a GPU",
        kind="dtype-mixed",
        cause="dtype",
        codes=("CFG012",),
        warns=("CFG013",),
        settings={"server.device": "cuda"},
        plant=planting(config(torch_dtype="bfloat16")),
    ),
    Config(
        name="dtype-census",
        title="float32 stated, float16 stored",
        kind="dtype-stored",
        cause="dtype",
        warns=("CFG013",),
        plant=planting(config(torch_dtype="float32")),
    ),
    Defect(
        name="fp8-no-scale",
        title="a weight in 8-bit floats without its scale",
        where="file",
        kind="quant-scales",
        cause="quantisation",
        codes=("CFG014",),
        plant=planting(one("midlayer.mlp.down_proj.weight", _fp8)),
    ),
    Flag(
        name="quantization-inherited",
        title="--quantization awq holds for the plain drafter too",
        kind="quant-inherited",
        cause="quantisation",
        codes=("CFG015",),
        settings={"server.args": ["--quantization", "awq"]},
    ),
    Config(
        name="fc-norm-missing",
        title="fc_norm set, its tensors not in the file: ones in their place",
        kind="norm-flags",
        cause="norms",
        codes=("CFG016",),
        warns=("KEY002",),
        plant=planting(config(fc_norm=True)),
    ),
    Config(
        name="fc-norm-old-version",
        title="fc_norm set and there, on a version that ignores it",
        kind="norm-flags-version",
        cause="norms",
        codes=("CFG016", "KEY001"),
        sglang="0.5.11",
        healthy_from="0.5.12",
        plant=planting(
            config(fc_norm=True),
            added(**{f"fc_norm.{i}.weight": half([1] * 128, 128) for i in range(3)}),
        ),
    ),
    Config(
        name="norm-before-fc-silent",
        title="norm_before_fc set, the norm missing: ones in its place",
        kind="norm-flags",
        cause="norms",
        codes=("CFG016",),
        warns=("KEY002",),
        plant=planting(config(norm_before_fc=True)),
    ),
    Config(
        name="norm-output",
        title="norm_output set on a drafter trained without it",
        kind="norm-output",
        cause="norms",
        warns=("CFG017",),
        served_codes=("ACC005",),
        served=True,
        plant=planting(config(norm_output=True)),
    ),
    Config(
        name="norm-before-residual",
        title="norm_before_residual asked for, which SGLang ignores",
        kind="norm-before-residual",
        cause="norms",
        codes=("CFG018",),
        plant=planting(config(norm_before_residual=True)),
    ),
    Config(
        name="sliding-window",
        title="a sliding window, which SGLang does not give the drafter",
        kind="sliding-window",
        cause="config",
        warns=("CFG019",),
        plant=planting(config(sliding_window=64, layer_types=["sliding_attention"])),
    ),
    Flag(
        name="rejection-sampling",
        title="rejection sampling, which needs the whole vocabulary",
        kind="flags-drafter",
        cause="flags",
        codes=("CFG024",),
        settings={"server.args": ["--speculative-use-rejection-sampling"]},
    ),
    Flag(
        name="token-map",
        title="--speculative-token-map beside a drafter with a d2t of its own",
        kind="token-map",
        cause="flags",
        warns=("CFG024",),
        settings={"server.args": ["--speculative-token-map", "map.pt"]},
    ),
    Defect(
        name="simulated-acceptance",
        title="SGLANG_SIMULATE_ACC_LEN=3: the server invents its acceptance",
        where="environment",
        kind="acceptance-simulated",
        cause="environment",
        served_codes=("SRV002",),
        served=True,
        settings={"server.env": {"SGLANG_SIMULATE_ACC_LEN": "3", "OMP_NUM_THREADS": "1"}},
    ),
)
