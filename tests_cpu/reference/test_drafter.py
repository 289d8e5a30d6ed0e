from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from eagle3_checks.profile import Speculation
from eagle3_checks.reference.checkpoint import load_drafter, save_drafter
from eagle3_checks.reference.drafter_config import DrafterConfig
from eagle3_checks.reference.drafting import draft_trees
from eagle3_checks.reference.training import unroll, unroll_loss
from tests_cpu.reference.small import SMALL, make

if TYPE_CHECKING:
    from pathlib import Path


@settings(max_examples=20, deadline=None)
@given(
    aux=st.integers(1, 4),
    kv=st.sampled_from([1, 2, 4]),
    head_dim=st.sampled_from([4, 8]),
    length=st.integers(1, 9),
)
def test_shapes(aux: int, kv: int, head_dim: int, length: int) -> None:
    config = replace(
        SMALL,
        num_aux_hidden_states=aux,
        num_key_value_heads=kv,
        head_dim=head_dim,
        target_hidden_size=12,
    )
    drafter = make(config)
    assert drafter.fc.weight.shape == (16, 12 * aux)
    parameters = drafter.state_dict()
    assert parameters["midlayer.self_attn.q_proj.weight"].shape == (4 * head_dim, 32)
    assert parameters["midlayer.self_attn.k_proj.weight"].shape == (kv * head_dim, 32)
    hidden = drafter.fuse(torch.randn(2, length, 12 * aux))
    logits, hidden = drafter.step(torch.zeros(2, length).long(), hidden, 0, drafter.begin())
    assert logits.shape == (2, length, 20)
    assert hidden.shape == (2, length, 16)


def test_input_as_wide_as_the_embedding_goes_past_fc() -> None:
    hidden = torch.randn(1, 3, 16)
    assert make().fuse(hidden) is hidden


def test_round_trip(tmp_path: Path) -> None:
    drafter = make()
    save_drafter(drafter, tmp_path, torch.float32)
    again = load_drafter(tmp_path, drafter.embed_tokens)
    assert again.config == drafter.config
    assert again.state_dict().keys() == drafter.state_dict().keys()
    for name, value in drafter.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    assert json.loads((tmp_path / "config.json").read_text())["torch_dtype"] == "float32"


def test_the_layout_is_the_one_sglang_loads(tmp_path: Path) -> None:
    save_drafter(make(), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    attention = {f"midlayer.self_attn.{part}_proj.weight" for part in "qkvo"}
    mlp = {f"midlayer.mlp.{part}_proj.weight" for part in ("gate", "up", "down")}
    norms = {
        f"midlayer.{part}.weight"
        for part in ("input_layernorm", "hidden_norm", "post_attention_layernorm")
    }
    top = {"fc.weight", "norm.weight", "lm_head.weight", "d2t", "t2d"}
    assert tensors.keys() == attention | mlp | norms | top
    assert tensors["d2t"].dtype == torch.int64
    assert tensors["t2d"].dtype == torch.bool
    assert tensors["fc.weight"].dtype == torch.float16


@pytest.mark.parametrize("change", [{"hidden_act": "gelu"}, {"partial_rotary_factor": 0.5}])
def test_what_is_not_computed_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        DrafterConfig.from_json(SMALL.to_json(torch.float16) | change)


def test_missing_tensor_is_refused(tmp_path: Path) -> None:
    save_drafter(make(), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["midlayer.mlp.up_proj.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="up_proj"):
        load_drafter(tmp_path, make().embed_tokens)


def test_training_sees_the_computation_that_serves() -> None:
    """Where the text is what the drafter drafts, the unroll and the drafted chain are the same."""
    drafter = make()
    tokens, aux = torch.randint(50, (12,)), torch.randn(12, 48)
    unrolled = [logits[0] for logits, _ in unroll(drafter, aux[None], tokens[None], 3)]
    first = drafter.kept[unrolled[0].argmax(-1)]
    drafted = draft_trees(drafter, aux, tokens, torch.arange(11), Speculation()).tokens[:, 1:]
    assert torch.equal(first, drafted[: len(first), 0])
    right = first == tokens[2 : 2 + len(first)]
    second = drafter.kept[unrolled[1].argmax(-1)]
    assert torch.equal(second[right], drafted[: len(second), 1][right])


def test_the_loss_reaches_every_parameter() -> None:
    drafter = make()
    loss, accuracies = unroll_loss(
        drafter, torch.randn(2, 10, 48), torch.randn(2, 10, 50), torch.randint(50, (2, 10)), 3
    )
    loss.backward()  # type: ignore[no-untyped-call]
    assert len(accuracies) == 3
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in drafter.parameters())
