from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file

from eagle3_checks.reference.acceptance import simulate
from eagle3_checks.reference.checkpoint import load_drafter
from eagle3_checks.reference.target import capture_layers, load_target
from eagle3_checks.reference.tokenizer import load_tokenizer
from eagle3_checks.reference.unlooping import distinct_share

if TYPE_CHECKING:
    from pathlib import Path


def test_size(tiny: Path) -> None:
    assert sum(f.stat().st_size for f in tiny.rglob("*") if f.is_file()) < 8e6


def test_d2t_maps_onto_distinct_ids_and_t2d_agrees(tiny: Path) -> None:
    tensors = load_file(tiny / "drafter" / "model.safetensors")
    config = json.loads((tiny / "drafter" / "config.json").read_text())
    kept = tensors["d2t"] + torch.arange(len(tensors["d2t"]))
    assert len(kept) == config["draft_vocab_size"] == tensors["lm_head.weight"].shape[0]
    assert config["draft_vocab_size"] < config["vocab_size"]
    assert (kept.diff() > 0).all()
    assert kept[0] >= 0
    assert kept[-1] < config["vocab_size"]
    assert torch.equal(tensors["t2d"].nonzero().flatten(), kept)
    assert tensors["d2t"].any()


def test_target_and_drafter_fit(tiny: Path) -> None:
    target, drafter = (
        json.loads((tiny / part / "config.json").read_text()) for part in ("target", "drafter")
    )
    for name in ("hidden_size", "vocab_size", "max_position_embeddings", "rope_theta"):
        assert target[name] == drafter[name]
    assert capture_layers(target["num_hidden_layers"]) == (2, 4, 5)


def test_drafter_is_accepted_on_held_out_prompts(tiny: Path, prompt_folder: Path) -> None:
    torch.set_num_threads(1)
    tokenizer = load_tokenizer(tiny / "target")
    target = load_target(tiny / "target")
    drafter = load_drafter(tiny / "drafter", target.get_input_embeddings().weight)
    lines = (prompt_folder / "heldout-code.jsonl").read_text().splitlines()[:16]
    ids = [tokenizer.encode(json.loads(line)["text"]).ids for line in lines]
    acceptance, written = simulate(target, drafter, ids, new_tokens=64)
    assert acceptance.verify_steps > 200
    assert acceptance.accept_length > 2.0
    assert acceptance.per_position[0] > 0.5
    assert distinct_share(torch.stack(written)) > 0.3
