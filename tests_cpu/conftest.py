"""A small healthy pair, written without torch: shapes and names are real, weights are zeros."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Shared machines are slow at times; a deadline would report the machine, not the code.
settings.register_profile("project", deadline=None)
settings.load_profile("project")
TEST_SECONDS = 600

Spec = tuple[str, tuple[int, ...], bytes | None]
"""dtype, shape, and the bytes (zeros where None)."""

SIZES = {"BF16": 2, "F32": 4, "I64": 8, "BOOL": 1, "F8_E4M3": 1}
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INNER = 16, 2, 1, 8, 24
VOCAB, DRAFT_VOCAB, SHIFT = 128, 64, 3
TARGET_LAYERS = 8

DRAFT_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCAB,
    "draft_vocab_size": DRAFT_VOCAB,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "torch_dtype": "bfloat16",
}
TARGET_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "num_hidden_layers": TARGET_LAYERS,
    "num_attention_heads": HEADS,
    "vocab_size": VOCAB,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "torch_dtype": "bfloat16",
}
MLA_CONFIG: dict[str, Any] = {
    **DRAFT_CONFIG,
    "architectures": ["Eagle3DeepseekV2ForCausalLM"],
    "model_type": "kimi_k2",
    "q_lora_rank": 12,
    "kv_lora_rank": 10,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
}


def weight(*shape: int) -> Spec:
    return "BF16", shape, None


def draft_tensors(layer: str = "midlayer") -> dict[str, Spec]:
    """Return the tensors of a healthy Llama drafter, its decoder layer called `layer`."""
    query, keys = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    inside = {
        "self_attn.q_proj.weight": weight(query, 2 * HIDDEN),
        "self_attn.k_proj.weight": weight(keys, 2 * HIDDEN),
        "self_attn.v_proj.weight": weight(keys, 2 * HIDDEN),
        "self_attn.o_proj.weight": weight(HIDDEN, query),
        **_common_layer(),
    }
    return _around({f"{layer}.{name}": spec for name, spec in inside.items()})


def mla_tensors(layer: str = "midlayer") -> dict[str, Spec]:
    """Return the tensors of a healthy MLA drafter."""
    inside = {
        "self_attn.q_a_proj.weight": weight(12, 2 * HIDDEN),
        "self_attn.q_a_layernorm.weight": weight(12),
        "self_attn.q_b_proj.weight": weight(HEADS * 10, 12),
        "self_attn.kv_a_proj_with_mqa.weight": weight(14, 2 * HIDDEN),
        "self_attn.kv_a_layernorm.weight": weight(10),
        "self_attn.kv_b_proj.weight": weight(HEADS * 14, 10),
        "self_attn.o_proj.weight": weight(HIDDEN, HEADS * 8),
        **_common_layer(),
    }
    return _around({f"{layer}.{name}": spec for name, spec in inside.items()})


def _common_layer() -> dict[str, Spec]:
    return {
        "mlp.gate_proj.weight": weight(INNER, HIDDEN),
        "mlp.up_proj.weight": weight(INNER, HIDDEN),
        "mlp.down_proj.weight": weight(HIDDEN, INNER),
        "input_layernorm.weight": weight(HIDDEN),
        "hidden_norm.weight": weight(HIDDEN),
        "post_attention_layernorm.weight": weight(HIDDEN),
    }


def _around(layer: dict[str, Spec]) -> dict[str, Spec]:
    kept = bytes(SHIFT <= i < SHIFT + DRAFT_VOCAB for i in range(VOCAB))
    return {
        "fc.weight": weight(HIDDEN, 3 * HIDDEN),
        **layer,
        "norm.weight": weight(HIDDEN),
        "lm_head.weight": weight(DRAFT_VOCAB, HIDDEN),
        "d2t": ("I64", (DRAFT_VOCAB,), struct.pack(f"<{DRAFT_VOCAB}q", *[SHIFT] * DRAFT_VOCAB)),
        "t2d": ("BOOL", (VOCAB,), kept),
    }


def safetensors_bytes(
    tensors: Mapping[str, Spec], metadata: Mapping[str, str] | None = None
) -> bytes:
    """Return a whole safetensors file."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    parts: list[bytes] = []
    end = 0
    for name, (dtype, shape, data) in tensors.items():
        part = bytes(prod(shape) * SIZES[dtype]) if data is None else data
        header[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": [end, end + len(part)],
        }
        parts.append(part)
        end += len(part)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def with_changes(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy with changed entries; those changed to `...` are left out."""
    merged = {**values, **changes}
    return {key: value for key, value in merged.items() if value is not ...}


@pytest.fixture(autouse=True, scope="session")
def cache_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what tests launch out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EAGLE3_CHECKS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def tensor_file() -> Callable[..., bytes]:
    """Return `safetensors_bytes(tensors, metadata)`."""
    return safetensors_bytes


@pytest.fixture(scope="session")
def healthy_tensors() -> Callable[..., dict[str, Spec]]:
    """Return `draft_tensors(layer)`."""
    return draft_tensors


@pytest.fixture(scope="session")
def healthy_config() -> Callable[..., dict[str, Any]]:
    """Return a function that gives the healthy config.json of "draft", "target" or "mla"."""
    configs = {"draft": DRAFT_CONFIG, "target": TARGET_CONFIG, "mla": MLA_CONFIG}
    return lambda which, **changes: with_changes(configs[which], changes)


@pytest.fixture(scope="session")
def healthy_pair() -> Callable[..., tuple[Path, Path]]:
    """Return a function that writes a pair below a folder and gives (target, drafter).

    `draft`, `target` and `tensors` change entries of the healthy files, `...` leaves one out;
    `layer` names the decoder layer; `mla` makes the drafter one of multi-head latent attention.
    """

    def write(  # noqa: PLR0913 - one argument for each thing that may differ
        folder: Path,
        *,
        draft: Mapping[str, Any] | None = None,
        target: Mapping[str, Any] | None = None,
        tensors: Mapping[str, Any] | None = None,
        layer: str = "midlayer",
        mla: bool = False,
    ) -> tuple[Path, Path]:
        homes = folder / "target", folder / "drafter"
        for home in homes:
            home.mkdir(parents=True)
        drafter = MLA_CONFIG if mla else DRAFT_CONFIG
        for home, config, changes in zip(
            homes, (TARGET_CONFIG, drafter), (target, draft), strict=True
        ):
            text = json.dumps(with_changes(config, changes or {}), indent=2)
            (home / "config.json").write_text(text)
        healthy = mla_tensors(layer) if mla else draft_tensors(layer)
        weights = safetensors_bytes(with_changes(healthy, tensors or {}))
        (homes[1] / "model.safetensors").write_bytes(weights)
        return homes

    return write


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """End a test that hangs; here, since the gate's tests run without that plugin."""
    for item in items:
        if Path(__file__).parent in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))
