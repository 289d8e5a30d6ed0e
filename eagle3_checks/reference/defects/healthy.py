"""Healthy variants: files and flags that look different and speculate as well."""

from __future__ import annotations

import json
import struct
from functools import partial
from pathlib import Path

from eagle3_checks.reference.defects.defect import Variant
from eagle3_checks.reference.defects.planting import (
    GONE,
    WEIGHTS,
    Tensors,
    config,
    dropped,
    planting,
    renamed,
    rewrite,
    tensors,
)
from eagle3_checks.reference.defects.values import floats, from_rows, integers, rows, whole
from eagle3_checks.reference.tensorfile import RawTensor, read_tensors, write_tensors

File = partial(Variant, where="file")
Config = partial(Variant, where="config")
Flag = partial(Variant, where="flag")
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def _target(pair: Path, name: str) -> RawTensor:
    return read_tensors(pair / "target" / WEIGHTS)[0][name]


def _whole_vocabulary(pair: Path) -> None:
    """Give the head a row for every token: the target's own where the drafter had none."""
    trained = _target(pair, HEAD)

    def widened(held: Tensors) -> Tensors:
        offsets = whole(held["d2t"])
        every = rows(trained)
        for place, row in enumerate(rows(held[HEAD])):
            every[place + offsets[place]] = row
        return held | {HEAD: from_rows(trained, every)}

    tensors(widened)(pair)


def _unsorted(held: Tensors) -> Tensors:
    """Order the draft vocabulary from the last token to the first."""
    kept = [offset + place for place, offset in enumerate(whole(held["d2t"]))][::-1]
    return held | {
        HEAD: from_rows(held[HEAD], rows(held[HEAD])[::-1]),
        "d2t": integers([token - place for place, token in enumerate(kept)]),
    }


def _bfloat16(held: Tensors) -> Tensors:
    return {name: _stored(tensor, "BF16") for name, tensor in held.items()}


def _float32(held: Tensors) -> Tensors:
    return {name: _stored(tensor, "F32") for name, tensor in held.items()}


def _stored(tensor: RawTensor, dtype: str) -> RawTensor:
    """Store float16 values in another type; bfloat16 by cutting float32 off."""
    if tensor.dtype != "F16":
        return tensor
    held = floats(tensor)
    data = struct.pack(f"<{len(held)}f", *held)
    if dtype == "BF16":
        data = b"".join(data[begin + 2 : begin + 4] for begin in range(0, len(data), 4))
    return RawTensor(dtype, tensor.shape, data)


def _own_embedding(pair: Path) -> None:
    own = _target(pair, EMBEDDING)
    tensors(lambda held: held | {"embed_tokens.weight": own})(pair)


def _sharded(pair: Path) -> None:
    """Split the weights over two files with an index."""
    folder = pair / "drafter"
    held, metadata = read_tensors(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(held)
    places: dict[str, str] = {}
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        file = f"model-{number:05}-of-00002.safetensors"
        write_tensors({name: held[name] for name in part}, folder / file, metadata)
        places |= dict.fromkeys(part, file)
    size = sum(len(tensor.data) for tensor in held.values())
    index = {"metadata": {"total_size": size}, "weight_map": places}
    rewrite(folder / "model.safetensors.index.json", json.loads(json.dumps(index)))


VARIANTS: tuple[Variant, ...] = (
    File(name="as-it-is", title="the tiny pair as it is", served=True),
    Flag(
        name="tree",
        title="tree drafting: 3 steps, topk 4, 8 draft tokens",
        served=True,
        settings={
            "speculation.topk": 4,
            "speculation.draft_tokens": 8,
            "floors.accept_rate": 0.1,
        },
    ),
    Flag(
        name="five-steps",
        title="a chain of 5 steps",
        settings={
            "speculation.steps": 5,
            "speculation.draft_tokens": 6,
            "floors.accept_rate": 0.2,
        },
    ),
    File(
        name="layers-0",
        title="decoder layer as layers.0",
        served=True,
        plant=planting(renamed("midlayer.", "layers.0.")),
    ),
    File(
        name="model-layers-0",
        title="decoder layer as model.layers.0",
        plant=planting(renamed("midlayer.", "model.layers.0.")),
    ),
    File(
        name="whole-vocabulary",
        title="a head over the whole vocabulary, no d2t",
        served=True,
        plant=planting(_whole_vocabulary, config(draft_vocab_size=2048), dropped("d2t", "t2d")),
    ),
    File(
        name="head-borrowed",
        title="no head of its own: the target's (it was trained with one, so its floor is lower)",
        served=True,
        settings={"floors.accept_length": 1.3, "floors.accept_rate": 0.1},
        plant=planting(config(draft_vocab_size=None), dropped(HEAD, "d2t", "t2d")),
    ),
    File(
        name="d2t-unsorted",
        title="d2t in another order, the head with it",
        served=True,
        plant=planting(tensors(_unsorted)),
    ),
    File(name="no-t2d", title="no t2d, which SGLang does not read", plant=planting(dropped("t2d"))),
    File(
        name="bfloat16",
        title="weights and config in bfloat16",
        served=True,
        plant=planting(tensors(_bfloat16), config(torch_dtype="bfloat16")),
    ),
    File(
        name="float32",
        title="weights and config in float32",
        plant=planting(tensors(_float32), config(torch_dtype="float32")),
    ),
    File(name="sharded", title="weights in two files with an index", plant=planting(_sharded)),
    File(
        name="own-embedding",
        title="the target's embedding in the drafter's file",
        served=True,
        plant=planting(_own_embedding),
    ),
    Config(
        name="rope-parameters",
        title="RoPE in the newer schema alone",
        plant=planting(
            config(
                rope_theta=GONE,
                rope_scaling=GONE,
                rope_parameters={"rope_theta": 10000.0, "rope_type": "default"},
            )
        ),
    ),
    Config(
        name="aux-stated",
        title="the captured layers stated as they are by default",
        plant=planting(config(eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 3, 4]})),
    ),
    Config(
        name="architectures-two",
        title="another library's class name before SGLang's",
        plant=planting(config(architectures=["EagleLlama", "LlamaForCausalLMEagle3"])),
    ),
)
