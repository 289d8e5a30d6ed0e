"""The RoPE that a config.json comes to in the transformers a SGLang version pins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from eagle3_checks.checkpoint.files import shown
from eagle3_checks.contract.version import Contract
from eagle3_checks.rules.pins import one_rope_dict

DEFAULT_THETA = 10000.0
DEFAULT_TYPE = "default"
_PRETRAINED = frozenset({"llama3", "yarn", "longrope"})
"""Types for which transformers fills in ``original_max_position_embeddings``."""
_THETAS = {"llama4_text": 500000.0}
"""Bases of config classes that do not default to 10000."""


@dataclass(frozen=True, kw_only=True)
class Rope:
    """Rotary position embedding as SGLang builds it."""

    theta: Any
    """A number, unless the config says otherwise."""
    kind: str
    values: Mapping[str, Any]
    """The whole dict: type, factor and the rest."""

    def summary(self) -> str:
        """Return it as in ``theta 500000, llama3 factor 8``."""
        factor = self.values.get("factor")
        scaled = f" factor {plain(factor)}" if factor is not None else ""
        return f"theta {plain(self.theta)}, {self.kind}{scaled}"

    def same(self, other: Rope) -> bool:
        """Whether it turns every position alike, as far as theta, type and factor say."""
        keys = ("factor", "original_max_position_embeddings")
        scaled = self.kind == other.kind and (
            self.kind == DEFAULT_TYPE
            or all(self.values.get(key) == other.values.get(key) for key in keys)
        )
        return self.theta == other.theta and scaled


def effective(config: Mapping[str, Any], contract: Contract) -> Rope:
    """Return the RoPE that SGLang builds from this config.

    transformers 4 reads ``rope_theta`` and ``rope_scaling``. transformers 5 takes ``rope_scaling``
    whole where it is given, else ``rope_parameters``, and ``rope_theta`` where that dict has none.
    """
    scaling = table(config, "rope_scaling")
    top = config.get("rope_theta", _THETAS.get(str(config.get("model_type")), DEFAULT_THETA))
    if not one_rope_dict(contract):
        return Rope(theta=top, kind=kind_of(scaling), values=MappingProxyType(dict(scaling)))
    chosen = dict(scaling or table(config, "rope_parameters"))
    kind = kind_of(chosen)
    if kind in _PRETRAINED and "max_position_embeddings" in config:
        chosen.setdefault("original_max_position_embeddings", config["max_position_embeddings"])
    theta = chosen.get("rope_theta", top)
    return Rope(theta=theta, kind=kind, values=MappingProxyType(chosen))


def stated_thetas(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each base that the config states, with where it stands."""
    if config.get("rope_theta") is not None:
        yield "rope_theta", config["rope_theta"]
    for key in ("rope_scaling", "rope_parameters"):
        value = table(config, key).get("rope_theta")
        if value is not None:
            yield f"{key}.rope_theta", value


def stated_kinds(config: Mapping[str, Any]) -> Iterator[tuple[str, Rope]]:
    """Yield each scaling that the config states, with where it stands."""
    for key in ("rope_scaling", "rope_parameters"):
        values = table(config, key)
        if "rope_type" in values or "type" in values:
            yield key, Rope(theta=None, kind=kind_of(values), values=values)


def table(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return an object of the config; empty where it is none."""
    value = config.get(key)
    return value if isinstance(value, Mapping) else {}


def kind_of(values: Mapping[str, Any]) -> str:
    """Return the type of scaling; ``rope_type`` wins over the older ``type``."""
    kind = values.get("rope_type", values.get("type", DEFAULT_TYPE))
    return shown(kind if isinstance(kind, str) else repr(kind), 40)


def by_layer(config: Mapping[str, Any]) -> bool:
    """Whether each type of layer has a RoPE of its own, as in Gemma 3."""
    parameters = table(config, "rope_parameters")
    return any(isinstance(value, Mapping) for value in parameters.values())


def plain(value: Any) -> str:
    """Return a number without a needless fraction."""
    if isinstance(value, float) and value.is_integer():
        return shown(str(int(value)), 40)
    return shown(str(value), 40)
