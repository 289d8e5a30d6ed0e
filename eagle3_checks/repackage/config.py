"""Fixes of config.json, each certain from the files, or refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from eagle3_checks.checkpoint.config import AUX_IDS, NESTED_LAYER
from eagle3_checks.checkpoint.files import shown
from eagle3_checks.contract.dims import DEFAULT_AUX
from eagle3_checks.contract.version import LLAMA
from eagle3_checks.facts import Manifest, Shape
from eagle3_checks.repackage.plan import Change, Refusal

OWN = ("auto_map", "tie_word_embeddings", "torch_dtype", "dtype")
"""Fields that speculators writes for the drafter as a whole: the nested ones are the layer's."""
ORIGIN = "from_speculators"
"""Where a repackaged config keeps what marked it as one of speculators."""
ALIASES = frozenset(
    {"Eagle3Speculator", "Eagle3DraftModel", "Eagle3LlamaForCausalLM", "LlamaForCausalLM"}
)
"""Architectures under which trainers write what SGLang calls LlamaForCausalLMEagle3."""

MEANT = ALIASES | {LLAMA}

Step = tuple[dict[str, Any], Change | None]


def flattened(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[Change], list[Refusal]]:
    """Move the fields of speculators' nested config to the top."""
    nested = raw.get(NESTED_LAYER)
    config = dict(raw)
    if not isinstance(nested, Mapping):
        return config, [], []
    moved: list[str] = []
    refusals: list[Refusal] = []
    for key, value in nested.items():
        if key.startswith("_") or key in ("architectures", "transformers_version"):
            continue
        if config.get(key) is None:
            config[key] = value
            moved.append(key)
        elif value is not None and config[key] != value and key not in OWN:
            refusals.append(
                Refusal(
                    what=f"config.json: {shown(key)}",
                    why=f"it is {text(config[key])} at the top and {text(value)} in {NESTED_LAYER}",
                    instead="keep one of the two",
                )
            )
    del config[NESTED_LAYER]
    change = Change(
        what=f"config.json: {len(moved)} field{'' if len(moved) == 1 else 's'}",
        old=f"in {NESTED_LAYER}",
        new="at the top",
        why="SGLang reads sizes at the top alone",
    )
    return config, [change], refusals


def architecture(raw: dict[str, Any]) -> Step:
    """Name the class that SGLang serves, where the trainer's own name means the same."""
    seen = raw.get("architectures")
    names = seen if isinstance(seen, list) else []
    known = names[:1] != [LLAMA] and all(isinstance(n, str) and n in MEANT for n in names)
    unnamed = not seen and raw.get("speculators_model_type") == "eagle3"
    if not ((names and known) or unnamed) or raw.get("model_type", "llama") != "llama":
        return raw, None
    change = Change(
        what="config.json: architectures",
        old=text(seen),
        new=text([LLAMA]),
        why="every tensor has its place and shape in that class",
    )
    return {**raw, "architectures": [LLAMA]}, change


def target_width(raw: dict[str, Any], manifest: Manifest) -> Iterator[Change | Refusal]:
    """Resolve ``target_hidden_size: null``, which stops SGLang's Llama class; changes `raw`."""
    if "target_hidden_size" not in raw or raw["target_hidden_size"] is not None:
        return
    hidden, fc = raw.get("hidden_size"), shape_of(manifest, "fc.weight")
    states = aux_count(raw)
    if not isinstance(hidden, int) or fc is None or len(fc) != 2 or fc[1] % states:  # noqa: PLR2004
        yield Refusal(
            what="config.json: target_hidden_size",
            why="it is null, and fc.weight does not tell the target's width",
            instead="write the target's hidden_size, or leave it out where it is the drafter's",
        )
        return
    width = fc[1] // states
    if width == hidden:
        del raw["target_hidden_size"]
    else:
        raw["target_hidden_size"] = width
    yield Change(
        what="config.json: target_hidden_size",
        old="null",
        new="(left out)" if width == hidden else str(width),
        why=f"fc.weight takes {fc[1]} = {states} aux states x {width}",
    )


def draft_vocabulary(raw: dict[str, Any], manifest: Manifest) -> Iterator[Change | Refusal]:
    """Write the draft_vocab_size that SGLang's Llama class insists on; changes `raw`."""
    if "draft_vocab_size" in raw:
        return
    head = shape_of(manifest, "lm_head.weight")
    if head is None:
        yield Refusal(
            what="config.json: draft_vocab_size",
            why="it is missing, and so is lm_head.weight, whose rows it counts",
            instead="write the number of rows, or null to use the target's head",
        )
        return
    raw["draft_vocab_size"] = head[0]
    yield Change(
        what="config.json: draft_vocab_size",
        old="(missing)",
        new=str(head[0]),
        why="lm_head.weight has that many rows",
    )


def tie(raw: dict[str, Any], manifest: Manifest) -> Iterator[Change | Refusal]:
    """Untie a head that is the drafter's own: it has fewer rows than the embedding."""
    head = shape_of(manifest, "lm_head.weight")
    if raw.get("tie_word_embeddings") is not True or head is None:
        return
    full = raw.get("vocab_size")
    if not isinstance(full, int) or head[0] >= full:
        yield Refusal(
            what="config.json: tie_word_embeddings",
            why="it is true, and lm_head.weight is as large as the embedding: which of the two the "
            "drafter was trained with cannot be told",
            instead="write false if the head in the file is the one it was trained with",
        )
        return
    raw["tie_word_embeddings"] = False
    yield Change(
        what="config.json: tie_word_embeddings",
        old="true",
        new="false",
        why=f"lm_head.weight has {head[0]} rows of {full}: it cannot be the embedding",
    )


def set_aside(raw: dict[str, Any]) -> None:
    """Take away the marks of a form that the file no longer has; changes `raw`.

    By them vLLM, and the rules of this suite, would count its layer ids in speculators' way.
    """
    marks = [key for key in ("speculators_config", "speculators_model_type") if key in raw]
    if marks:
        raw[ORIGIN] = {key: raw.pop(key) for key in marks}


def aux_count(raw: Mapping[str, Any]) -> int:
    """Return how many aux states fc fuses, as the config states it."""
    number = raw.get("num_aux_hidden_states")
    if type(number) is int and number > 0:
        return number
    eagle = raw.get("eagle_config")
    ids = eagle.get(AUX_IDS) if isinstance(eagle, Mapping) else None
    ids = raw.get(AUX_IDS) if ids is None else ids
    return len(ids) if isinstance(ids, list) and ids else DEFAULT_AUX


def shape_of(manifest: Manifest, name: str) -> Shape | None:
    """Return the shape of a tensor under whatever prefix; None where there is none, or several."""
    found = [i for key, i in manifest.tensors.items() if key == name or key.endswith(f".{name}")]
    exact = [info for info in found if info.name == name]
    chosen = exact or found
    return chosen[0].shape if len(chosen) == 1 and chosen[0].shape else None


def text(value: Any) -> str:
    """Return a JSON value in a form that is short and safe to print."""
    return shown(json.dumps(value, ensure_ascii=False, default=str), 60)
