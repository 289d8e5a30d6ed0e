from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from eagle3_checks.reference.acceptance import draft_chains
from eagle3_checks.reference.checkpoint import load_drafter, save_drafter
from eagle3_checks.reference.drafter import Drafter
from eagle3_checks.reference.drafter_config import DrafterConfig
from eagle3_checks.reference.training import unroll, unroll_loss

if TYPE_CHECKING:
    from pathlib import Path

SMALL = DrafterConfig(
    hidden_size=16,
    intermediate_size=24,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    vocab_size=50,
    draft_vocab_size=20,
    max_position_embeddings=64,
)


def make(config: DrafterConfig = SMALL) -> Drafter:
    torch.manual_seed(0)
    kept = torch.randperm(config.vocab_size)[: config.draft_vocab_size].sort().values
    return Drafter(config, torch.randn(config.vocab_size, config.hidden_size), kept).eval()


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
    assert drafter.midlayer.self_attn.q_proj.weight.shape == (4 * head_dim, 32)
    assert drafter.midlayer.self_attn.k_proj.weight.shape == (kv * head_dim, 32)
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


@pytest.mark.parametrize("change", [{"num_hidden_layers": 2}, {"norm_output": True}])
def test_what_is_not_computed_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        DrafterConfig.from_json(SMALL.to_json(torch.float16) | change)


def test_missing_tensor_is_refused(tmp_path: Path) -> None:
    save_drafter(make(), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["midlayer.mlp.up_proj.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(RuntimeError, match="up_proj"):
        load_drafter(tmp_path, make().embed_tokens)


@torch.no_grad()
def test_chains_drafted_at_once_equal_one_chain_drafted_token_by_token() -> None:
    """The naive way: for one root, run the whole prefix as roots, then extend it by hand."""
    drafter = make()
    tokens, aux = torch.randint(50, (1, 9)), torch.randn(1, 9, 48)
    at_once = draft_chains(drafter, aux, tokens, 3)
    for root in range(8):
        fed, hidden = tokens[:, 1 : root + 2], drafter.fuse(aux[:, : root + 1])
        embedded, states = fed, hidden
        for depth in range(3):
            logits, out = naive(drafter, embedded, states)
            token = drafter.kept[logits[:, -1:].argmax(-1)]
            assert token.item() == at_once[0, root, depth]
            embedded = torch.cat([embedded, token], dim=1)
            states = torch.cat([states, out[:, -1:]], dim=1)


def naive(
    drafter: Drafter, tokens: torch.Tensor, hidden: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One plain causal pass over a sequence that is part roots, part chain."""
    return drafter.step(tokens, hidden, 0, drafter.begin())


def test_training_sees_the_computation_that_serves() -> None:
    """Where the text is what the drafter drafts, the unroll and the drafted chain are the same."""
    drafter = make()
    tokens, aux = torch.randint(50, (1, 12)), torch.randn(1, 12, 48)
    unrolled = [logits for logits, _ in unroll(drafter, aux, tokens, 3)]
    first = drafter.kept[unrolled[0].argmax(-1)]
    drafted = draft_chains(drafter, aux, tokens, 3)
    assert torch.equal(first, drafted[:, : first.shape[1], 0])
    right = first[0] == tokens[0, 2 : 2 + first.shape[1]]
    second = drafter.kept[unrolled[1].argmax(-1)][0]
    assert torch.equal(second[right], drafted[0, : len(second), 1][right])


def test_the_loss_reaches_every_parameter() -> None:
    drafter = make()
    loss, accuracies = unroll_loss(
        drafter, torch.randn(2, 10, 48), torch.randn(2, 10, 50), torch.randint(50, (2, 10)), 3
    )
    loss.backward()  # type: ignore[no-untyped-call]
    assert len(accuracies) == 3
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in drafter.parameters())
