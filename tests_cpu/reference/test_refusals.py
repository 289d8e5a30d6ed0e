"""What the reference does not compute, and weights that it cannot run: said, never guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from eagle3_checks.reference.borrowed import borrowed_weights, read_rows
from eagle3_checks.reference.checkpoint import WeightsError, load_drafter, save_drafter
from eagle3_checks.reference.drafter_config import DrafterConfig, NotComputedError
from tests_cpu.reference.small import SMALL, make

YARN = {"rope_type": "yarn"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu' is not computed"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5 is not computed"),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 2}}, "type 'longrope' is not"),
        ({"rope_scaling": YARN}, "type 'yarn' has no factor"),
        ({"rope_scaling": "yarn"}, "rope_scaling is 'yarn'; it must be"),
        ({"rope_parameters": {"full_attention": YARN}}, "differ by type of layer"),
        ({"rope_theta": "1e4"}, "rope_theta"),
        ({"quantization_config": {"quant_method": "fp8"}}, r"quantised \(fp8\)"),
        ({"architectures": ["LlamaForCausalLM"]}, "serves .* as EAGLE-3 drafters"),
        ({"hidden_size": "16"}, "hidden_size is '16'; it must be a whole number"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"max_position_embeddings": None}, "max_position_embeddings is missing"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps is 'small'; it must be a number"),
    ],
)
def test_configs(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(NotComputedError, match=said):
        DrafterConfig.from_json(SMALL.to_json(torch.float32) | changes)


def test_a_config_comes_back() -> None:
    assert DrafterConfig.from_json(SMALL.to_json(torch.float32)) == SMALL


def damaged(folder: Path, **changes: torch.Tensor | None) -> Path:
    """Write a drafter with changed tensors; those changed to None are left out."""
    save_drafter(make(), folder, torch.float32)
    tensors: dict[str, Any] = load_file(folder / "model.safetensors") | changes
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(kept, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fc.weight": None}, "fc.weight missing"),
        ({"fc.weight": torch.zeros(16, 16)}, r"fc.weight is \[16, 16\]; .* \[16, 48\]"),
        ({"d2t": torch.arange(20) * 2}, "d2t maps to ids 0 to 57; the vocabulary has 50"),
        ({"d2t": torch.arange(3)}, "d2t has 3 entries for a head of 20 rows"),
    ],
)
def test_weights(tmp_path: Path, changes: dict[str, torch.Tensor | None], said: str) -> None:
    with pytest.raises(WeightsError, match=said):
        load_drafter(damaged(tmp_path, **changes), torch.zeros(50, 16))


def test_what_sglang_drops_is_dropped(tmp_path: Path) -> None:
    folder = damaged(tmp_path, anything=torch.zeros(3))
    assert torch.equal(load_drafter(folder, torch.zeros(50, 16)).fc.weight, make().fc.weight)


def test_embedding_and_head_are_read_alone(tmp_path: Path) -> None:
    embedding, head = torch.randn(50, 16), torch.randn(50, 16)
    file = tmp_path / "model.safetensors"
    save_file({"language_model.model.embed_tokens.weight": embedding}, file)
    assert all(torch.equal(part, embedding) for part in borrowed_weights(tmp_path))
    save_file({"model.embed_tokens.weight": embedding, "lm_head.weight": head}, file)
    assert torch.equal(borrowed_weights(tmp_path)[1], head)
    save_file({"other.weight": head}, file)
    with pytest.raises(WeightsError, match="no tensor is called embed_tokens"):
        borrowed_weights(tmp_path)


def test_rows_of_a_file(tmp_path: Path) -> None:
    rows = torch.randn(4, 6)
    (tmp_path / "rows").write_bytes(rows.numpy().tobytes())
    assert torch.equal(read_rows(tmp_path / "rows", 4, 6), rows)
