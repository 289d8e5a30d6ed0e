"""The names of the damages, and what each stands for."""

from __future__ import annotations

TARGET = {
    "shifted-layers": "each aux state is that of the layer after the one that is reported",
    "swapped-states": "the aux states come in reverse order",
    "no-residual": "each aux state is the last layer's output without the residual",
    "partial-sums": "each aux state holds what one of two ranks contributed to the last sum",
    "one-state": "the first aux state alone is handed on, so fc is skipped",
}
"""What the target hands to the drafter."""
DRAFTER = {
    "wrong-embedding": "the drafter's embedding is the target's, moved by one row",
    "wrong-head": "the drafter's head is moved by one row",
    "position-offset": "positions are off while drafting, and right in prefill",
    "zeroed-layer": "the decoder layer's weights are zero, as after a transfer that brought none",
    "noisy-weights": "the drafter's matrices carry as much noise as signal",
}
"""What the drafter is made of."""
VERIFY = {
    "accepts-wrong-drafts": "a wrong draft is accepted now and then",
    "token-zero": "part of every answer is token 0",
    "not-deterministic": "the target's logits carry noise that differs from run to run",
    "batch-dependent": "a request that is not alone takes the target's second choice",
    "cache-dependent": "a request with a cached prefix takes the target's second choice",
    "dies-on-grammar": "a constrained request ends the scheduler",
}
"""How answers are made of drafts."""
TITLES = TARGET | DRAFTER | VERIFY
