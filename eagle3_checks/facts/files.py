"""What the files of a drafter and its target hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Shape = tuple[int, ...]
Corner = tuple[tuple[float, ...], ...]
"""The first values of the first rows of a matrix."""


class FileFault(StrEnum):
    """How a checkpoint's files fail to be readable."""

    MISSING = "missing"
    NOT_JSON = "not-json"
    TRUNCATED = "truncated"
    BAD_HEADER = "bad-header"
    ABSENT_SHARD = "absent-shard"
    DUPLICATE = "duplicate"
    PICKLE_ONLY = "pickle-only"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, kw_only=True)
class FileProblem:
    """A file that could not be used, with what to do about it."""

    fault: FileFault
    file: str
    detail: str
    """What was seen and what was expected, in one sentence."""
    fix: str


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """One tensor as its safetensors header describes it."""

    name: str
    dtype: str
    """The header's own spelling: F32, BF16, I64, BOOL …"""
    shape: Shape
    file: str
    """Name of the file that holds it, relative to the checkpoint's folder."""
    begin: int
    """Absolute offset of the first byte in that file."""
    end: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """All tensors of a checkpoint, from headers alone, and what could not be read."""

    source: str
    tensors: Mapping[str, TensorInfo]
    files: tuple[str, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[FileProblem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DraftConfig:
    """A drafter's config.json; fields are None where the file does not state them (or states null).

    Field semantics: SGLang 0.5.23, ``srt/models/llama_eagle3.py``.
    """

    source: str
    raw: Mapping[str, Any]
    architectures: tuple[str, ...] = ()
    model_type: str | None = None
    hidden_size: int | None = None
    target_hidden_size: int | None = None
    intermediate_size: int | None = None
    num_hidden_layers: int | None = None
    num_attention_heads: int | None = None
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    vocab_size: int | None = None
    draft_vocab_size: int | None = None
    max_position_embeddings: int | None = None
    tie_word_embeddings: bool | None = None
    num_aux_hidden_states: int | None = None
    aux_layer_ids: tuple[int, ...] | None = None
    """``eagle_config.eagle_aux_hidden_state_layer_ids``: the ids SGLang captures by."""
    aux_layer_ids_top_level: tuple[int, ...] | None = None
    """The same key at the top level, which SGLang's capture code does not read."""
    use_aux_hidden_state: bool | None = None
    dtype: str | None = None
    """``dtype`` or, where that is missing, ``torch_dtype``: bfloat16, float16 …"""
    hidden_act: str | None = None
    rope_theta: float | None = None
    rope_scaling: Mapping[str, Any] | None = None
    rope_parameters: Mapping[str, Any] | None = None
    fc_norm: bool | None = None
    """``fc_norm`` or, where that is not true, ``use_aux_norm``."""
    norm_before_fc: bool | None = None
    """``eagle_config.norm_before_fc`` or, where that is missing, the same key at the top level."""
    norm_output: bool | None = None
    norm_before_residual: bool | None = None
    quantization: Mapping[str, Any] | None = None
    """``quantization_config``, or what hf_quant_config.json holds where config.json has none."""
    nested_layer: Mapping[str, Any] | None = None
    """``transformer_layer_config``: where speculators writes the decoder layer's sizes."""
    problems: tuple[FileProblem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TargetConfig:
    """A target's config.json, multimodal wrappers looked through (``text_config``)."""

    source: str
    raw: Mapping[str, Any]
    architectures: tuple[str, ...] = ()
    model_type: str | None = None
    hidden_size: int | None = None
    num_hidden_layers: int | None = None
    vocab_size: int | None = None
    max_position_embeddings: int | None = None
    num_attention_heads: int | None = None
    head_dim: int | None = None
    dtype: str | None = None
    """``dtype`` or ``torch_dtype``, of the language model or else of the whole."""
    problems: tuple[FileProblem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """The target's special tokens, from its tokenizer files; no template is ever run."""

    special: Mapping[int, str] = field(default_factory=dict)
    """Content of the added tokens by id."""
    ends: tuple[int, ...] = ()
    """Ids that end an answer: ``eos_token_id`` of generation_config.json or config.json."""
    template: str = ""
    """The chat template's text, for looking up which special tokens it names."""
    files: tuple[str, ...] = ()
    """Names of the files that could be read."""


@dataclass(frozen=True, kw_only=True)
class TensorStats:
    """What the values of one floating-point tensor look like."""

    name: str
    dtype: str
    shape: Shape
    non_finite: int
    """Elements that are NaN or infinite, out of all."""
    all_zero: bool
    rms: float
    """Root of the mean square of `sampled` finite elements, spread over the tensor."""
    mean: float
    low: float
    high: float
    sampled: int
    zero_rows: tuple[int, ...] = ()
    """Rows of an embedding or head that are zero throughout."""
    repeats: Mapping[int, int] = field(default_factory=dict)
    """Rows of an embedding or head that repeat an earlier row, by the row they repeat."""
    row_rms: Mapping[int, float] = field(default_factory=dict)
    """Root mean square of some rows of an embedding or head."""
    row_elements: int = 0
    """Elements of each such row that it was taken from."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingSeen:
    """A sample of the drafter's embedding, compared with the target's."""

    name: str
    target_name: str
    rows: int
    """Rows that were compared."""
    equal: int
    """Rows that agree, up to the rounding of the coarser type."""
    largest: float
    """Largest difference between two elements."""


@dataclass(frozen=True, kw_only=True)
class TensorValues:
    """What a pass over the values of a checkpoint found."""

    tensors: Mapping[str, TensorStats]
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Tensors that were not judged, by name, with the reason."""
    embedding: EmbeddingSeen | None = None
    """None where either side has no embedding at hand."""
    problems: tuple[FileProblem, ...] = ()
