"""Defects of the drafter's files: what is there, under which names, in which shapes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from eagle3_checks.reference.defects.defect import Defect
from eagle3_checks.reference.defects.planting import (
    CONFIG,
    GONE,
    WEIGHTS,
    Tensors,
    added,
    config,
    dropped,
    one,
    planting,
    renamed,
    tensors,
)
from eagle3_checks.reference.defects.values import (
    first_block,
    floats,
    half,
    redrawn,
    reordered_blocks,
)
from eagle3_checks.reference.tensorfile import read_tensors

File = partial(Defect, where="file")
OWN = {"embed_tokens.weight": redrawn(0.02)(half([0] * 2048 * 128, 2048, 128))}
"""A random embedding of the drafter's own."""
SECOND = {
    f"layers.1.{name}.weight": redrawn(0.02)(half([0] * rows * columns, rows, columns))
    for name, (rows, columns) in {
        "self_attn.q_proj": (128, 128),
        "self_attn.k_proj": (64, 128),
        "self_attn.v_proj": (64, 128),
        "self_attn.o_proj": (128, 128),
        "mlp.gate_proj": (512, 128),
        "mlp.up_proj": (512, 128),
        "mlp.down_proj": (128, 512),
    }.items()
}
NORMS = {
    f"layers.1.{name}.weight": half([1] * 128, 128)
    for name in ("input_layernorm", "post_attention_layernorm")
}
"""A second decoder layer whose input norm has a name that SGLang never uses."""


def _cut(pair: Path) -> None:
    file = pair / "drafter" / WEIGHTS
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content[:-100])


def _pickled(pair: Path) -> None:
    (pair / "drafter" / WEIGHTS).rename(pair / "drafter" / "pytorch_model.bin")


def _no_target_config(pair: Path) -> None:
    (pair / "target" / CONFIG).unlink()


def _mirrored(pair: Path) -> None:
    """Give the drafter the target's embedding with its dimensions in reverse, and no other."""
    own = read_tensors(pair / "target" / WEIGHTS)[0]["model.embed_tokens.weight"]
    inputs = tuple(f"midlayer.self_attn.{part}_proj.weight" for part in "qkv")
    norm = "midlayer.input_layernorm.weight"

    def mirrored(held: Tensors) -> Tensors:
        width = own.shape[1]
        back = [*range(width)[::-1], *range(width, 2 * width)]
        changed = {name: reordered_blocks(*back)(held[name]) for name in inputs}
        changed[norm] = half(floats(held[norm])[::-1], width)
        changed["embed_tokens.weight"] = reordered_blocks(*range(width)[::-1])(own)
        return held | changed

    tensors(mirrored)(pair)


DEFECTS: tuple[Defect, ...] = (
    File(
        name="truncated",
        title="weights cut off by 100 bytes, as after a copy that broke off",
        kind="file-truncated",
        cause="files",
        codes=("SRC001", "VOC003"),
        plant=planting(_cut),
    ),
    File(
        name="pickled",
        title="weights as a pickle alone, which is never opened",
        kind="file-pickle",
        cause="files",
        codes=("SRC004",),
        plant=planting(_pickled),
    ),
    Defect(
        name="no-target-config",
        title="the target's folder holds no config.json",
        where="target",
        kind="config-unreadable",
        cause="files",
        codes=("SRC003",),
        plant=planting(_no_target_config),
    ),
    File(
        name="decoder-renamed",
        title="decoder layer under a name the loader does not know: dropped, left random",
        kind="keys-unknown",
        cause="tensors",
        codes=("KEY001", "KEY002", "KEY003"),
        served_codes=("WIR001", "WIR002", "ACC001"),
        served=True,
        plant=planting(renamed("midlayer.", "decoder.")),
    ),
    File(
        name="layers-named",
        title="decoder layer as layers.0, which versions before 0.5.12 drop",
        kind="keys-layers-0",
        cause="tensors",
        codes=("KEY001", "KEY002", "KEY003"),
        sglang="0.5.11",
        healthy_from="0.5.12",
        plant=planting(renamed("midlayer.", "layers.0.")),
    ),
    File(
        name="query-bias",
        title="attention biases that the parameters have no place for",
        kind="keys-attention-bias",
        cause="tensors",
        codes=("KEY001",),
        plant=planting(added(midlayer__self_attn__q_proj__bias=half([0.1] * 128, 128))),
    ),
    File(
        name="fc-bias",
        title="fc.bias in the file, bias not set: dropped",
        kind="keys-fc-bias",
        cause="tensors",
        codes=("KEY001",),
        plant=planting(added(fc__bias=half([0.1] * 128, 128))),
    ),
    File(
        name="fc-bias-missing",
        title="bias set, no fc.bias in the file: left random",
        kind="keys-fc-bias",
        cause="tensors",
        codes=("KEY002",),
        plant=planting(config(bias=True)),
    ),
    File(
        name="head-missing",
        title="no lm_head though draft_vocab_size is stated: left random",
        kind="keys-head-missing",
        cause="tensors",
        codes=("KEY002",),
        served_codes=("WIR002", "ACC001"),
        served=True,
        plant=planting(dropped("lm_head.weight")),
    ),
    File(
        name="value-missing",
        title="v_proj missing: a third of qkv_proj left random",
        kind="keys-missing",
        cause="tensors",
        codes=("KEY002",),
        served=True,
        plant=planting(dropped("midlayer.self_attn.v_proj.weight")),
    ),
    File(
        name="norm-missing",
        title="hidden_norm missing: ones in its place",
        kind="keys-norm-missing",
        cause="tensors",
        warns=("KEY002",),
        plant=planting(dropped("midlayer.hidden_norm.weight")),
    ),
    File(
        name="query-narrow",
        title="q_proj that reads the hidden state without the embedding beside it",
        kind="shape-attention",
        cause="tensors",
        codes=("KEY004",),
        plant=planting(one("midlayer.self_attn.q_proj.weight", first_block)),
    ),
    File(
        name="second-layer-norm",
        title="the second layer's input norm under the name another engine reads",
        kind="keys-second-layer",
        cause="tensors",
        codes=("KEY005",),
        warns=("KEY002",),
        plant=planting(config(num_hidden_layers=2), added(**SECOND, **NORMS)),
    ),
    File(
        name="embedding-trained",
        title="an embedding that was trained with the drafter: the target's takes its place",
        kind="embedding-discarded",
        cause="embedding",
        warns=("KEY006", "VAL006"),
        served=True,
        plant=planting(config(embed_requires_grad=True), _mirrored),
    ),
    File(
        name="embedding-random",
        title="random embed_tokens from an export that skipped them",
        kind="embedding-random",
        cause="embedding",
        warns=("VAL006",),
        plant=planting(added(**OWN)),
    ),
    File(
        name="head-borrowed-wide",
        title="no head, and the target's is of another width than the drafter's state",
        kind="head-borrowed",
        cause="head",
        codes=("KEY007",),
        warns=("VAL006",),
        plant=planting(
            config(draft_vocab_size=None, target_hidden_size=256),
            config("target", hidden_size=256),
            dropped("lm_head.weight", "d2t", "t2d"),
            added(
                fc__weight=redrawn(0.02)(half([0] * 128 * 768, 128, 768)),
                embed_tokens__weight=OWN["embed_tokens.weight"],
            ),
        ),
    ),
    File(
        name="layers-40",
        title="num_hidden_layers 40, copied from the target; the file has one layer",
        kind="layer-count",
        cause="config",
        codes=("CFG022", "KEY002"),
        plant=planting(config(num_hidden_layers=40)),
    ),
    File(
        name="architecture-base",
        title="architectures is the base model's: its class is built instead",
        kind="architecture-base",
        cause="config",
        codes=("CFG001",),
        plant=planting(config(architectures=["LlamaForCausalLM"])),
    ),
    File(
        name="model-type-missing",
        title="model_type missing: transformers cannot tell what it is",
        kind="architecture-model-type",
        cause="config",
        codes=("CFG006",),
        plant=planting(config(model_type=GONE)),
    ),
)
