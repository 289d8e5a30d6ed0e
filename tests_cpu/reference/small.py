"""A drafter small enough to be compared number by number."""

from __future__ import annotations

import torch

from eagle3_checks.reference.drafter import Drafter
from eagle3_checks.reference.drafter_config import DrafterConfig

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
    """Build a drafter of random weights, the same every time."""
    torch.manual_seed(0)
    kept = torch.randperm(config.vocab_size)[: config.draft_vocab_size].sort().values
    return Drafter(config, torch.randn(config.vocab_size, config.hidden_size), kept).eval()
