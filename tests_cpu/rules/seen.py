"""Healthy facts of a running server."""

from __future__ import annotations

from typing import Any

from eagle3_checks.facts import (
    CaptureSeen,
    Comparison,
    ForwardSeen,
    LoadedTensor,
    LoadSeen,
    Looping,
    Parity,
)

LOAD = LoadSeen(
    model_class="LlamaForCausalLMEagle3",
    rank=0,
    tensors=(
        LoadedTensor(name="fc.weight", shape=(16, 48), dtype="BF16", into=("model.fc.weight",)),
        LoadedTensor(name="d2t", shape=(64,), dtype="I64", into=("hot_token_id",)),
        LoadedTensor(name="t2d", shape=(128,), dtype="BOOL", into=()),
    ),
    unwritten=("model.embed_tokens.weight",),
    shared=("model.embed_tokens.weight",),
)
ALIKE = Comparison(prompts=4, tokens=128)
PARITY = Parity(
    dtype="bfloat16",
    scored=ALIKE,
    again=ALIKE,
    together=ALIKE,
    concurrency=4,
    cached=ALIKE,
    cached_tokens=408,
)
LOOPING = Looping(
    prompts=10, characters=1000, looping=0, accept_length=2.2, accept_length_all=3.1, worst=("p1",)
)
CAPTURE = CaptureSeen(rank=0, target_class="LlamaForCausalLM", layers=(2, 4, 5))


def forward(mode: str, width: int = 48, **changes: Any) -> ForwardSeen:
    ran = width != 16
    values = {
        "rank": 0,
        "mode": mode,
        "width": width,
        "embed_width": 16,
        "fc_ran": ran,
        "fc_in": width if ran else None,
        "fc_out": 16 if ran else None,
    }
    return ForwardSeen(**{**values, **changes})
