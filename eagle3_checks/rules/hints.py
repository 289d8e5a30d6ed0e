"""Why tensors are dropped, and under which name they would be read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from eagle3_checks.contract.dims import Dims
from eagle3_checks.contract.names import Place, llama_place, mla_place, old_llama_place
from eagle3_checks.contract.replay import LoadPlan, TensorPlan
from eagle3_checks.contract.version import LLAMA, Contract, first_version

LAYER = "midlayer"
"""The decoder layer's name that every version reads."""
_PART = re.compile(
    r"(?:^|\.)(?P<rest>(?:self_attn|mlp|input_layernorm|hidden_norm|post_attention_layernorm)\..+)$"
)
_EXTRA = re.compile(r"(?:^|\.)(?:layers|midlayer)\.\d+\.")
_NUMBER = re.compile(r"\d+")
MOST = 12
"""Causes that are told one by one."""
_BUFFERS = (".rotary_emb.inv_freq", ".rotary_emb.cos_cached", ".rotary_emb.sin_cached")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Dropped tensors that share a cause."""

    label: str
    """What they are called together, as in ``decoder.*``."""
    tensors: tuple[TensorPlan, ...]
    hint: str
    """What they look like, and what to do."""


def harmless(name: str) -> bool:
    """Whether a dropped tensor is a buffer that SGLang computes itself."""
    return name.endswith(_BUFFERS)


def group(plan: LoadPlan, tensors: Sequence[TensorPlan], contract: Contract) -> tuple[Group, ...]:
    """Sort dropped tensors by cause, in the order of the file; past `MOST` the rest is one."""
    known = _Known(plan, contract)
    found: dict[tuple[str, str], list[TensorPlan]] = {}
    for tensor in tensors:
        found.setdefault(_cause(known, tensor.name), []).append(tensor)
    groups = [
        Group(label=label, tensors=tuple(members), hint=hint)
        for (label, hint), members in found.items()
    ]
    shown, rest = groups[:MOST], groups[MOST:]
    if len(rest) > 1:
        more = tuple(tensor for other in rest for tensor in other.tensors)
        hint = (
            f"{len(rest)} more causes like these: correct those above and look again, or check "
            "that this is a drafter's file"
        )
        shown.append(Group(label="of other names", tensors=more, hint=hint))
    else:
        shown += rest
    return tuple(shown)


class _Known:
    """What a plan's parameters are called, and what reached them."""

    def __init__(self, plan: LoadPlan, contract: Contract) -> None:
        self.dims, self.contract = plan.dims, contract
        self._names = {p.name for p in plan.parameters}
        self._reached: dict[str, set[str | None]] = {}
        for tensor in plan.tensors:
            if tensor.parameter:
                self._reached.setdefault(tensor.parameter, set()).add(tensor.shard)

    def readable(self, name: str) -> tuple[str, bool]:
        """Return a name, made from this one, that SGLang would read, and whether it is wanted."""
        part = _PART.search(name)
        candidates = [f"{LAYER}.{part['rest']}"] if part else []
        pieces = name.split(".", MOST)  # a name of more parts is nobody's
        candidates += [".".join(pieces[i:]) for i in range(1, len(pieces))]
        for candidate in candidates:
            place = self._place(candidate)
            if place.parameter is not None:
                reached = self._reached.get(place.parameter, set())
                return candidate, place.shard not in reached and None not in reached
        return "", False

    def _place(self, name: str) -> Place:
        if self.dims.drafter_class != LLAMA:
            return mla_place(name, self._names)
        if self.contract.llama.unknown_shard == "key-error":
            return old_llama_place(name, self._names, tied=self.dims.tied)
        return llama_place(name, self._names, self.contract.llama.renames)


def _cause(known: _Known, name: str) -> tuple[str, str]:
    readable, free = known.readable(name)
    part = _PART.search(name)
    if readable and not free:
        if _EXTRA.search(name):
            return _unreadable(known.dims, name, known.contract)
        return name, f"{readable} is in the file too, and read: leave this copy out"
    if part and readable.startswith(f"{LAYER}."):
        prefix = name[: part.start("rest")].rstrip(".")
        return f"{prefix}.*" if prefix else "layer tensors", _layer_hint(prefix, known.contract)
    if readable:
        removed = name.removesuffix(readable)
        return f"{removed}*", f"take the prefix {removed} off the names"
    return _unreadable(known.dims, name, known.contract)


def _layer_hint(prefix: str, contract: Contract) -> str:
    rename = f"rename {prefix}.* to {LAYER}.*" if prefix else f"prefix them with {LAYER}."
    since = first_version({"layer_module": "layers"})
    if prefix == "layers.0" and contract.llama.layer_module == "midlayer":
        return (
            f"SGLang reads layers.0.* from {since} on; for {contract.name} {rename}, which every "
            "version reads"
        )
    return f"they look like the decoder layer: {rename}"


def _unreadable(dims: Dims, name: str, contract: Contract) -> tuple[str, str]:
    """Name the cause of a tensor that no renaming saves."""
    last = name.rpartition(".")[2]
    if name.endswith("lm_head.weight") and dims.tied:
        return name, (
            "tie_word_embeddings is true, so the embedding serves as the head: write false if the "
            "drafter has a head of its own"
        )
    if "input_norm." in name or "fc_norm." in name or "aux_norm_" in name:
        return _norm_hint(name, contract)
    if re.search(r"\.[qk]_norm\.", name):
        return "*.q_norm, *.k_norm", (
            f"SGLang {contract.name} builds no query and key norms in this class: a drafter "
            "trained with them cannot be served as it was trained"
        )
    if last == "bias":
        return _bias_hint(name, contract)
    extra = _EXTRA.search(name)
    if extra:
        label = name[: extra.end()].rstrip(".") + ".*"
        return label, (
            f"num_hidden_layers is {dims.layers}, and SGLang {contract.name} reads no such layer: "
            "correct num_hidden_layers if the drafter has more"
        )
    pattern = _NUMBER.sub("*", name)
    return pattern, f"SGLang {contract.name} builds no parameter of that name"


def _bias_hint(name: str, contract: Contract) -> tuple[str, str]:
    if name.endswith("fc.bias"):
        return name, (
            "config.json does not say bias: true, so fc is built without one: write it, since the "
            "drafter was trained with this bias"
        )
    return "*.bias", (
        f"SGLang {contract.name} builds these layers without a bias: a drafter trained with them "
        "cannot be served as it was trained"
    )


def _norm_hint(name: str, contract: Contract) -> tuple[str, str]:
    key = "norm_before_fc" if "input_norm." in name else "fc_norm"
    label = "input_norm.*" if key == "norm_before_fc" else "fc_norm.*"
    if getattr(contract.llama, key):
        return label, f"{key} is not true in config.json: write {key}: true"
    since = first_version({key: True})
    return label, f"SGLang reads them from {since} on, with {key}: true; use {since} or later"
