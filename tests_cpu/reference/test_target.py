from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from eagle3_checks.reference.generation import generate
from eagle3_checks.reference.target import (
    TargetConfig,
    build_target,
    capture_layers,
    load_target,
    read_target,
    save_target,
)

if TYPE_CHECKING:
    from pathlib import Path

SMALL = TargetConfig(
    vocab_size=60, hidden_size=32, intermediate_size=48, num_hidden_layers=7, head_dim=8
)


@pytest.mark.parametrize(
    ("layers", "captured"), [(2, (1,)), (5, (2,)), (6, (2, 3)), (7, (2, 3, 4)), (61, (2, 30, 58))]
)
def test_default_capture(layers: int, captured: tuple[int, ...]) -> None:
    assert capture_layers(layers) == captured


@torch.no_grad()
def test_greedy_text_equals_that_of_a_model_without_a_cache() -> None:
    torch.manual_seed(0)
    model = build_target(SMALL).eval()
    prompts = torch.randint(60, (3, 7))
    naive = prompts
    for _ in range(6):
        token = model(input_ids=naive, use_cache=False).logits[:, -1:].argmax(-1)
        naive = torch.cat([naive, token], dim=1)
    assert torch.equal(generate(model, prompts, 6), naive)


def test_round_trip_and_aux_states(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = build_target(SMALL)
    save_target(model, SMALL, tmp_path)
    again = load_target(tmp_path)
    for name, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], value.half().float()), name
    aux, logits = read_target(again, torch.randint(60, (2, 5)))
    assert aux.shape == (2, 5, 3 * 32)
    assert logits.shape == (2, 5, 60)
