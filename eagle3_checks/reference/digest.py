"""Digests of hidden states, as the probe takes them inside the server.

The probe imports nothing of the suite and the suite nothing of the probe, so that this stands in
both (``inside/probe/eagle3_probe/digest.py``); a test holds the two together.
"""

from __future__ import annotations

import torch

from eagle3_checks.facts import StateDigest

TOKENS = 16
PROJECTIONS = 16
_MASK = 0xFFFFFFFF


def signs(width: int) -> torch.Tensor:
    """Return the fixed random directions, [width, PROJECTIONS] of -1 and 1 in float64."""
    column = torch.arange(width, dtype=torch.int64)[:, None]
    mixed = column * PROJECTIONS + torch.arange(PROJECTIONS, dtype=torch.int64) + 1
    for factor in (0x5BD1E995, 0x1B873593):
        mixed = (mixed * factor) & _MASK
        mixed = mixed ^ (mixed >> 15)
    return 1.0 - 2.0 * ((mixed >> 7) & 1).to(torch.float64)


def digest(states: torch.Tensor) -> StateDigest:
    """Digest the states [tokens, width] of one layer: PROJECTIONS numbers for each token."""
    values = states.detach().to(device="cpu", dtype=torch.float64)
    rows = values @ signs(values.shape[-1]) / values.shape[-1] ** 0.5
    return StateDigest(
        mean=float(values.mean()),
        norm=float(values.square().mean().sqrt()),
        rows=tuple(rows.flatten().tolist()),
    )
