"""The rotary position embeddings that drafters are served with, as SGLang 0.5.23 computes them.

Source read: `sglang/srt/layers/rotary_embedding` (`factory.py`, `rope_variant.py`, `yarn.py`), and
how transformers 5 makes one dict of both schemas (`modeling_rope_utils.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

DEFAULT_THETA = 10000.0
YARN_BETAS = (32, 1)
"""Rotations within the original context between which YaRN passes from one scale to the other."""

Scaling = Mapping[str, Any]


class RopeError(ValueError):
    """A rotary embedding that the reference does not compute; the message names the field."""


@dataclass(frozen=True, kw_only=True)
class Rope:
    """One rotary embedding: its base, and how it is stretched."""

    width: int
    """Dimensions of a head that are turned."""
    theta: float
    max_positions: int
    scaling: Scaling = field(default_factory=dict)
    latent: bool = False
    """Whether it belongs to latent attention, which takes any scaling for DeepSeek's YaRN."""

    @property
    def kind(self) -> str:
        """Name of the scaling; ``default`` for none."""
        kind = str(self.scaling.get("rope_type", self.scaling.get("type", "default")))
        return "deepseek_yarn" if self.latent and kind != "default" else kind

    def check(self) -> None:
        """Raise RopeError where this is not computed."""
        if self.kind not in _FREQUENCIES:
            raise RopeError(
                f"RoPE of type {self.kind!r} is not computed by the reference; it knows "
                f"{', '.join(_FREQUENCIES)}"
            )
        if self.kind not in ("default", "dynamic") and "factor" not in self.scaling:
            raise RopeError(f"RoPE of type {self.kind!r} has no factor")

    def turn(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Positions [R] -> cosines and sines [R, width] in float32, the halves repeated."""
        self.check()
        inverse, magnitude = _FREQUENCIES[self.kind](self)
        at = positions.float()
        if self.kind == "linear":
            at = at / self.scaling["factor"]
        angles = at[:, None] * inverse.to(positions.device)
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos() * magnitude, angles.sin() * magnitude

    def softmax_scale(self, head_dim: int) -> float:
        """Return what scores are multiplied by before the softmax."""
        scale = 1 / math.sqrt(head_dim)
        if self.kind != "deepseek_yarn":
            return scale
        if not (
            self.scaling.get("apply_yarn_scaling", True) and self.scaling.get("apply_scale", True)
        ):
            return scale
        all_dims = float(self.scaling.get("mscale_all_dim", 0.0))
        return scale * _magnitude(self.factor, all_dims) ** 2

    @property
    def factor(self) -> float:
        """By how much the context is stretched."""
        return float(self.scaling.get("factor", 1.0))

    @property
    def original(self) -> float:
        """Positions of the context that was stretched."""
        return float(self.scaling.get("original_max_position_embeddings", self.max_positions))


def stated(settings: Mapping[str, Any]) -> tuple[float, Scaling]:
    """Return base and scaling of a config.json that states them in either schema.

    `rope_scaling` wins over `rope_parameters` where it is not empty; the base is that of the dict,
    else the top level's.
    """
    for key in ("rope_scaling", "rope_parameters"):
        if settings.get(key) is not None and not isinstance(settings[key], Mapping):
            raise RopeError(f"{key} is {settings[key]!r}; it must be an object")
    scaling = dict(settings.get("rope_scaling") or settings.get("rope_parameters") or {})
    if any(isinstance(value, Mapping) for value in scaling.values()):
        raise RopeError("rope_parameters differ by type of layer, which no drafter has")
    top = settings.get("rope_theta")
    theta = scaling.get("rope_theta", DEFAULT_THETA if top is None else top)
    if isinstance(theta, bool) or not isinstance(theta, int | float):
        raise RopeError(f"rope_theta is {theta!r}; it must be a number")
    if settings.get("original_max_position_embeddings") and scaling:
        scaling["original_max_position_embeddings"] = settings["original_max_position_embeddings"]
    return float(theta), scaling


def _plain(rope: Rope) -> tuple[Tensor, float]:
    return _inverse(rope.theta, rope.width), 1.0


def _inverse(theta: float, width: int) -> Tensor:
    exponents = torch.arange(0, width, 2, dtype=torch.float32) / width
    return theta**-exponents  # type: ignore[no-any-return,unused-ignore]


def _llama3(rope: Rope) -> tuple[Tensor, float]:
    """Stretch long waves by the factor, keep short ones, and pass smoothly in between."""
    inverse = _inverse(rope.theta, rope.width)
    low = float(rope.scaling.get("low_freq_factor", 1.0))
    high = float(rope.scaling.get("high_freq_factor", 4.0))
    rotations = rope.original * inverse / (2 * math.pi)
    smooth = (rotations - low) / (high - low) if low != high else torch.zeros_like(rotations)
    between = (1 - smooth) * inverse / rope.factor + smooth * inverse
    stretched = torch.where(rotations < low, inverse / rope.factor, between)
    return torch.where(rotations > high, inverse, stretched), 1.0


def _dynamic(rope: Rope) -> tuple[Tensor, float]:
    """Raise the base once and for all, as if the context were always at its longest."""
    alpha = rope.scaling.get("alpha")
    factor = rope.factor
    growth = float(alpha) if alpha is not None else factor * factor - (factor - 1)
    theta = rope.theta * growth ** (rope.width / (rope.width - 2))
    return _inverse(theta, rope.width), 1.0


def _yarn(rope: Rope) -> tuple[Tensor, float]:
    scaling, factor = rope.scaling, rope.factor
    one, all_dims = scaling.get("mscale"), scaling.get("mscale_all_dim")
    if one is not None and all_dims is not None:
        magnitude = _magnitude(factor, one) / _magnitude(factor, all_dims)
    else:
        magnitude = _magnitude(factor, 1.0)
    truncate = bool(scaling.get("truncate", True))
    return _blended(rope, truncate=truncate), magnitude * float(scaling.get("attn_factor", 1.0))


def _deepseek_yarn(rope: Rope) -> tuple[Tensor, float]:
    scaling, factor = rope.scaling, rope.factor
    magnitude = _magnitude(factor, float(scaling.get("mscale", 1.0)))
    magnitude /= _magnitude(factor, float(scaling.get("mscale_all_dim", 0.0)))
    return _blended(rope, truncate=True), magnitude * float(scaling.get("attn_factor", 1.0))


def _blended(rope: Rope, *, truncate: bool) -> Tensor:
    """Blend stretched and kept frequencies by how often they turn within the original context."""
    inverse = _inverse(rope.theta, rope.width)
    fast = float(rope.scaling.get("beta_fast", YARN_BETAS[0]))
    slow = float(rope.scaling.get("beta_slow", YARN_BETAS[1]))
    low, high = (_turning(rope, rotations) for rotations in (fast, slow))
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rope.width - 1)
    if low == high:
        high += 0.001
    ramp = (torch.arange(rope.width // 2, dtype=torch.float32) - low) / (high - low)
    kept = (1 - ramp.clamp(0, 1)) * float(rope.scaling.get("extrapolation_factor", 1.0))
    return inverse / rope.factor * (1 - kept) + inverse * kept


def _turning(rope: Rope, rotations: float) -> float:
    """Return the dimension that turns so often within the original context."""
    per_turn = math.log(rope.original / (rotations * 2 * math.pi))
    return rope.width * per_turn / (2 * math.log(rope.theta))


def _magnitude(factor: float, weight: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


_FREQUENCIES: Mapping[str, Callable[[Rope], tuple[Tensor, float]]] = {
    "default": _plain,
    "linear": _plain,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "deepseek_yarn": _deepseek_yarn,
}
