"""config.json of drafters and targets: every field typed, nothing trusted, nothing raised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from eagle3_checks.checkpoint.files import (
    CheckpointError,
    check_folder,
    problem,
    read_json,
    shown,
)
from eagle3_checks.facts import DraftConfig, FileFault, FileProblem, TargetConfig

CONFIG = "config.json"
WRAPPERS = ("thinker_config", "llm_config", "language_config", "text_config")
"""Keys that hold a multimodal model's language model, in SGLang's order
(sglang/srt/utils/hf_transformers/common.py, ``get_hf_text_config``)."""
AUX_IDS = "eagle_aux_hidden_state_layer_ids"
NESTED_LAYER = "transformer_layer_config"
"""Where speculators writes the sizes of the decoder layer."""
QUANTIZATION = "hf_quant_config.json"
"""Where ModelOpt writes how a checkpoint is quantised; SGLang reads it too."""

_WANTED = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
_FIX = "write {key} in config.json as {wanted}, or leave it out"


class _Reader:
    """Takes typed fields out of one JSON object and collects what is wrong."""

    def __init__(self, values: Mapping[str, Any], prefix: str = "") -> None:
        self._values = values
        self._prefix = prefix
        self.problems: list[FileProblem] = []

    def number(self, key: str) -> int | None:
        """Return a whole number; None where absent, null or of another type."""
        value = self._values.get(key)
        if value is None or type(value) is int:
            return value
        self._wrong(key, value, int)
        return None

    def decimal(self, key: str) -> float | None:
        """Return a number; None where absent, null or of another type."""
        value = self._values.get(key)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        self._wrong(key, value, float)
        return None

    def text(self, key: str) -> str | None:
        value = self._values.get(key)
        if value is None or isinstance(value, str):
            return value
        self._wrong(key, value, str)
        return None

    def flag(self, key: str) -> bool | None:
        value = self._values.get(key)
        if value is None or isinstance(value, bool):
            return value
        self._wrong(key, value, bool)
        return None

    def table(self, key: str) -> Mapping[str, Any] | None:
        value = self._values.get(key)
        if value is None or isinstance(value, dict):
            return value
        self._wrong(key, value, "an object")
        return None

    def numbers(self, key: str) -> tuple[int, ...] | None:
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, list) and all(type(v) is int for v in value):
            return tuple(value)
        self._wrong(key, value, "a list of whole numbers")
        return None

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._values.get(key)
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            return tuple(value)
        self._wrong(key, value, "a list of texts")
        return ()

    def _wrong(self, key: str, value: Any, wanted: type | str) -> None:
        kind = wanted if isinstance(wanted, str) else _WANTED[wanted]
        name = f"{self._prefix}{key}"
        self.problems.append(
            problem(
                FileFault.UNREADABLE,
                CONFIG,
                f"{name} is {shown(repr(value), 60)}; it must be {kind}",
                _FIX.format(key=name, wanted=kind),
            )
        )


def _wrappers(raw: Mapping[str, Any]) -> Iterator[FileProblem]:
    """Tell what stands where a language model's config is looked for, and is none.

    SGLang takes whatever is there, and stops at the first field that it asks for.
    """
    for key in WRAPPERS:
        value = raw.get(key)
        if value is not None and not isinstance(value, dict):
            yield problem(
                FileFault.UNREADABLE,
                CONFIG,
                f"{key} is {shown(repr(value), 60)}; it must be an object: SGLang takes it for the "
                "language model's config and stops",
                f"leave {key} out of config.json, or write the language model's config there",
            )


def read_draft_config(folder: Path) -> DraftConfig:
    """Read a drafter's config.json; faults are in `problems`, and nothing is raised."""
    raw, faults = _read(folder)
    config = draft_config(raw, str(folder))
    return replace(
        config,
        quantization=config.quantization or _quantization(folder),
        problems=(*faults, *config.problems),
    )


def draft_config(raw: Mapping[str, Any], source: str = "") -> DraftConfig:
    """Type the content of a drafter's config.json; faults are in `problems`."""
    top = _Reader(raw)
    nested = top.table("eagle_config") or {}
    eagle = _Reader(nested, "eagle_config.")
    before_fc = eagle.flag("norm_before_fc")
    config = DraftConfig(
        source=source,
        raw=MappingProxyType(dict(raw)),
        architectures=top.texts("architectures"),
        model_type=top.text("model_type"),
        hidden_size=top.number("hidden_size"),
        target_hidden_size=top.number("target_hidden_size"),
        intermediate_size=top.number("intermediate_size"),
        num_hidden_layers=top.number("num_hidden_layers"),
        num_attention_heads=top.number("num_attention_heads"),
        num_key_value_heads=top.number("num_key_value_heads"),
        head_dim=top.number("head_dim"),
        vocab_size=top.number("vocab_size"),
        draft_vocab_size=top.number("draft_vocab_size"),
        max_position_embeddings=top.number("max_position_embeddings"),
        tie_word_embeddings=top.flag("tie_word_embeddings"),
        num_aux_hidden_states=top.number("num_aux_hidden_states"),
        aux_layer_ids=eagle.numbers(AUX_IDS),
        aux_layer_ids_top_level=top.numbers(AUX_IDS),
        use_aux_hidden_state=eagle.flag("use_aux_hidden_state"),
        dtype=_dtype(top),
        hidden_act=top.text("hidden_act"),
        rope_theta=top.decimal("rope_theta"),
        rope_scaling=top.table("rope_scaling"),
        rope_parameters=top.table("rope_parameters"),
        fc_norm=top.flag("fc_norm") or top.flag("use_aux_norm"),
        norm_before_fc=top.flag("norm_before_fc") if before_fc is None else before_fc,
        norm_output=top.flag("norm_output"),
        norm_before_residual=top.flag("norm_before_residual"),
        quantization=top.table("quantization_config"),
        nested_layer=top.table(NESTED_LAYER),
    )
    return replace(config, problems=(*top.problems, *eagle.problems, *_wrappers(raw)))


def read_target_config(folder: Path) -> TargetConfig:
    """Read a target's config.json, looking through the wrappers of multimodal models."""
    raw, faults = _read(folder)
    top = _Reader(raw)
    inner, prefix = _language_model(raw)
    language = _Reader(inner, prefix)
    config = TargetConfig(
        source=str(folder),
        raw=MappingProxyType(dict(raw)),
        architectures=top.texts("architectures"),
        model_type=top.text("model_type"),
        hidden_size=language.number("hidden_size"),
        num_hidden_layers=language.number("num_hidden_layers"),
        vocab_size=language.number("vocab_size"),
        max_position_embeddings=language.number("max_position_embeddings"),
        num_attention_heads=language.number("num_attention_heads"),
        head_dim=language.number("head_dim"),
        dtype=_dtype(language) or (_dtype(top) if prefix else None),
    )
    return replace(config, problems=(*faults, *top.problems, *language.problems, *_wrappers(raw)))


def language_config(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a config.json that describes the language model."""
    return _language_model(raw)[0]


def _dtype(reader: _Reader) -> str | None:
    """Return the stated type of the weights; ``dtype`` wins, as in transformers."""
    stated = reader.text("dtype") or reader.text("torch_dtype")
    return stated.removeprefix("torch.") if stated else None


def _quantization(folder: Path) -> Mapping[str, Any] | None:
    """Return what a file of ModelOpt's says; None where there is none that can be read."""
    try:
        (folder / QUANTIZATION).stat()
        value = read_json(folder / QUANTIZATION, QUANTIZATION).value
    except (CheckpointError, OSError, ValueError):
        return None
    inner = value.get("quantization", value) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else None


def _language_model(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    prefix = ""
    while key := next((k for k in WRAPPERS if isinstance(raw.get(k), dict)), None):
        raw, prefix = raw[key], f"{prefix}{key}."
    return raw, prefix


def _read(folder: Path) -> tuple[Mapping[str, Any], tuple[FileProblem, ...]]:
    fault = check_folder(folder)
    if fault:
        return {}, (fault,)
    try:
        parsed = read_json(folder / CONFIG, CONFIG)
    except CheckpointError as error:
        return {}, (error.problem,)
    if not isinstance(parsed.value, dict):
        detail = "it must hold a JSON object, as in {...}"
        return {}, (problem(FileFault.NOT_JSON, CONFIG, detail),)
    twice = tuple(
        problem(
            FileFault.DUPLICATE,
            CONFIG,
            f"it holds the key {shown(key)} twice; the last one counts",
            f"keep one {shown(key)}",
        )
        for key in dict.fromkeys(parsed.duplicates)
    )
    return parsed.value, twice
