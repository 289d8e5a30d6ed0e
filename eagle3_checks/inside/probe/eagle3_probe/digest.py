"""Digests of hidden states: enough to tell layers apart, little enough to be written down.

The suite's reference computes the same of the target's true states (``reference/digest.py``); a
test holds the two together.
"""

from __future__ import annotations

from typing import Any

import torch

TOKENS = 16
"""Of a prompt, the first so many are looked at."""
PROJECTIONS = 16
DIGITS = 9
_MASK = 0xFFFFFFFF


def signs(width: int) -> torch.Tensor:
    """Return the fixed random directions, [width, PROJECTIONS] of -1 and 1 in float64.

    By integer arithmetic alone, so that every version of torch makes the same.
    """
    column = torch.arange(width, dtype=torch.int64)[:, None]
    mixed = column * PROJECTIONS + torch.arange(PROJECTIONS, dtype=torch.int64) + 1
    for factor in (0x5BD1E995, 0x1B873593):
        mixed = (mixed * factor) & _MASK
        mixed = mixed ^ (mixed >> 15)
    return 1.0 - 2.0 * ((mixed >> 7) & 1).to(torch.float64)


def digest(states: torch.Tensor) -> dict[str, Any]:
    """Digest the states [tokens, width] of one layer: mean, norm and projections, row by row.

    ``norm`` is the root of the mean square; ``rows`` holds PROJECTIONS numbers a token, each the
    product of its state with a direction / sqrt(width).
    """
    values = states.detach().to(device="cpu", dtype=torch.float64)
    rows = values @ signs(values.shape[-1]) / values.shape[-1] ** 0.5
    return {
        "mean": _rounded(float(values.mean())),
        "norm": _rounded(float(values.square().mean().sqrt())),
        "rows": [_rounded(value) for value in rows.flatten().tolist()],
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
