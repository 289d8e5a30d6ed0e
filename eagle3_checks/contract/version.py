"""What one SGLang version does with a drafter's files, as data.

``data/sglang.json`` lists the versions in order; each entry holds what changed against the one
before it. Written by ``python -m eagle3_checks.contract.derive`` from the wheels, never by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from packaging.version import InvalidVersion, Version

from eagle3_checks.contract.metrics import MetaNames

LLAMA = "LlamaForCausalLMEagle3"
MLA = "Eagle3DeepseekV2ForCausalLM"
MERGED = ("llama", "meta", "targets")
"""Parts of a version's entry that hold their changes alone."""


class ContractError(ValueError):
    """A version that cannot be judged by; the message says which ones can."""


@dataclass(frozen=True, kw_only=True)
class LlamaLoader:
    """How ``LlamaForCausalLMEagle3`` is built and filled (sglang/srt/models/llama_eagle3.py)."""

    layer_module: Literal["midlayer", "layers"]
    """``midlayer`` is one module, ``layers`` a list: parameters are called ``layers.0.*``."""
    renames: tuple[tuple[str, str], ...]
    """Substrings replaced in every tensor's name, in this order, before it is looked up."""
    unknown_shard: Literal["dropped", "key-error"]
    """What happens to a q/k/v/gate/up tensor whose fused parameter does not exist."""
    fc_bias: Literal["always", "from-config"]
    intermediate_size_mlp: bool
    """Whether ``llama4_text`` drafters take their MLP width from ``intermediate_size_mlp``."""
    borrows_head: bool
    """Whether ``draft_vocab_size: null`` makes the drafter use the target's head."""
    requires_d2t: bool
    pads_short_shards: bool
    """Whether gate, up, down and o weights that are too narrow are padded with zeros; before, and
    for q, k and v, they stop the server. What is too wide is cut in silence in every version."""
    many_layers: bool
    aux_count: Literal["three", "from-config"]
    fc_norm: bool
    norm_before_fc: bool
    norm_output: bool
    fc_by_width: bool
    """Whether ``fc`` runs only where the incoming width differs from the embedding's."""


@dataclass(frozen=True, kw_only=True)
class MlaLoader:
    """How ``Eagle3DeepseekV2ForCausalLM`` is built (sglang/srt/models/kimi_k25_eagle3.py)."""

    fc_norm: bool
    norm_output: bool
    fc_split: bool
    """Whether ``fc`` is split among ranks, so that surplus rows are cut off."""
    fc_by_width: bool
    """Whether ``fc`` runs only where the incoming width differs from the embedding's."""


@dataclass(frozen=True, kw_only=True)
class Contract:
    """One SGLang version, seen from a drafter."""

    version: str
    """The known version whose data this is."""
    approximates: str | None
    """The version asked for, where it is not known and this one stands in for it."""
    sha256: str
    """Of the wheel that the data was derived from."""
    llama: LlamaLoader
    mla: MlaLoader | None
    classes: tuple[str, ...]
    """Architectures served as EAGLE-3 drafters."""
    reads_aux_ids: bool
    """Whether ``eagle_config.eagle_aux_hidden_state_layer_ids`` decides what is captured."""
    reads_use_aux: bool
    """Whether ``eagle_config.use_aux_hidden_state: false`` turns capturing off."""
    graphs_lose_ids: bool
    """Whether CUDA graphs of the target capture the default layers, whatever ids are stated: the
    graph runner then asks for the default, and the ids are set once the graphs are there."""
    context_beyond_draft: Literal["refused", "warned"]
    """What a target context beyond the drafter's positions leads to, without an override."""
    targets: Mapping[str, str]
    """Every architecture that SGLang serves by itself, and how it captures aux hidden states: see
    `eagle3_checks.contract.capture.capture_rule`."""
    meta_info_keys: tuple[str, ...]
    meta: MetaNames
    endpoints: tuple[str, ...]
    plugin_framework: bool
    """Whether SGLang loads entry points of the group ``sglang.srt.plugins``."""
    forward_hooks: bool
    return_aux_hidden_states: bool
    cpu_eagle: bool
    """Whether EAGLE decodes on the CPU."""
    requires: Mapping[str, str]
    """Versions of torch, transformers and the kernel package that the wheel pins."""

    @property
    def name(self) -> str:
        """The version for messages, with what it stands in for."""
        if self.approximates is None:
            return self.version
        return f"{self.version} (nearest known to {self.approximates})"


@cache
def known_versions() -> tuple[str, ...]:
    """Return all versions there is data for, oldest first."""
    return tuple(_records())


@cache
def contract_for(version: str) -> Contract:
    """Return the contract of a version.

    An unknown version gets the newest known one that is not newer, marked by `approximates`;
    ContractError where the text is no version or older than all known ones.
    """
    found = _records()
    try:
        asked = _release(version)
    except InvalidVersion as error:
        raise ContractError(
            f"{version!r} is not a version; write it as in {known_versions()[-1]}"
        ) from error
    for known in reversed(tuple(found)):
        if Version(known) <= asked:
            stand_in = None if known == Version(version).public else version.strip()
            return _contract(known, found[known], stand_in)
    oldest = known_versions()[0]
    raise ContractError(
        f"SGLang {version} is older than {oldest}, the oldest version there is data for; "
        f"give {oldest} or later"
    )


def first_version(
    wanted: Mapping[str, Any] | None = None, /, *, drafter_class: str = ""
) -> str | None:
    """Return the first known version whose Llama loader has these values, or None.

    With `drafter_class`, the version must serve that architecture too.
    """
    for version in known_versions():
        contract = contract_for(version)
        loader = contract.llama
        fits = all(getattr(loader, key) == value for key, value in (wanted or {}).items())
        if fits and (not drafter_class or drafter_class in contract.classes):
            return version
    return None


def _release(version: str) -> Version:
    """Count a development or pre-release as the release it leads to."""
    asked = Version(version)
    return Version(asked.base_version) if asked.is_prerelease else asked


def records(text: str) -> dict[str, dict[str, Any]]:
    """Read the data file: each version with its full record, oldest first."""
    full: dict[str, dict[str, Any]] = {}
    now: dict[str, Any] = {}
    for entry in json.loads(text):
        changes = {key: value for key, value in entry.items() if key != "version"}
        for part in MERGED:
            if part in changes and part in now:
                changes[part] = _merged(part, now[part], changes[part])
        now = {**now, **changes}
        full[entry["version"]] = now
    return full


def _merged(part: str, before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Apply changes; architectures that are gone are null."""
    found = {**before, **changes}
    if part == "targets":
        return {key: found[key] for key in sorted(found) if found[key] is not None}
    return found


@cache
def _records() -> Mapping[str, Mapping[str, Any]]:
    text = Path(__file__).with_name("data").joinpath("sglang.json").read_text(encoding="utf-8")
    return records(text)


def _contract(version: str, record: Mapping[str, Any], stand_in: str | None) -> Contract:
    loader = dict(record["llama"])
    loader["renames"] = tuple((old, new) for old, new in loader["renames"])
    data: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in record.items()
    }
    data |= {
        "llama": LlamaLoader(**loader),
        "mla": MlaLoader(**record["mla"]) if record["mla"] else None,
        "targets": MappingProxyType(record["targets"]),
        "meta": MetaNames(**record["meta"]),
        "requires": MappingProxyType(record["requires"]),
    }
    return Contract(version=version, approximates=stand_in, **data)
