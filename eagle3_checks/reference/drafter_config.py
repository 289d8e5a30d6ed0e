"""The dimensions of a drafter, as its `config.json` states them to SGLang."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagle3_checks.checkpoint.config import draft_config
from eagle3_checks.contract.dims import dims_of
from eagle3_checks.contract.version import ContractError, contract_for
from eagle3_checks.reference.rope import DEFAULT_THETA, Rope, RopeError, Scaling, stated

if TYPE_CHECKING:
    import torch

    from eagle3_checks.facts import DraftConfig

ARCHITECTURE = "LlamaForCausalLMEagle3"
DEFAULT_NUM_AUX = 3
COMPUTED_AS = "0.5.23"
"""The SGLang version whose computation this is."""


class NotComputedError(ValueError):
    """A drafter that the reference does not compute; the message names the field and its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentSizes:
    """Ranks and head sizes of multi-head latent attention."""

    q_lora_rank: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int

    @property
    def qk_head_dim(self) -> int:
        """Width of a query and of a key."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterConfig:
    """What an EAGLE-3 drafter is built from; most names are those of `config.json`."""

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    draft_vocab_size: int
    max_position_embeddings: int
    num_hidden_layers: int = 1
    target_hidden_size: int | None = None
    num_aux_hidden_states: int = DEFAULT_NUM_AUX
    rms_norm_eps: float = 1e-5
    rope_theta: float = DEFAULT_THETA
    rope_scaling: Scaling = field(default_factory=dict)
    latent: LatentSizes | None = None
    """None for the Llama-style drafter."""
    fc_bias: bool = False
    output_bias: bool = False
    """Whether `o_proj` has a bias; `qkv_proj` never has."""
    fc_norm: bool = False
    norm_before_fc: bool = False
    norm_output: bool = False
    tied: bool = False
    """Whether the embedding is the head."""
    borrowed: bool = False
    """Whether the head is the target's."""
    shares_embedding: bool = True
    """Whether the embedding is the target's."""

    @property
    def target_width(self) -> int:
        """Width of one aux state: `target_hidden_size`, the drafter's own where there is none."""
        return self.target_hidden_size or self.hidden_size

    @property
    def fused_width(self) -> int:
        """Input width of `fc`: aux states x target hidden."""
        return self.num_aux_hidden_states * self.target_width

    @property
    def head_rows(self) -> int:
        """Rows of the head: the draft vocabulary, the target's where its head is borrowed."""
        return self.vocab_size if self.borrowed else self.draft_vocab_size

    @property
    def rope(self) -> Rope:
        """The rotary embedding of all layers."""
        return Rope(
            width=self.latent.qk_rope_head_dim if self.latent else self.head_dim,
            theta=self.rope_theta,
            max_positions=self.max_position_embeddings,
            scaling=self.rope_scaling,
            latent=self.latent is not None,
        )

    def to_json(self, dtype: torch.dtype) -> dict[str, Any]:
        """Return the content of `config.json` for weights stored in `dtype`: Llama-style alone."""
        settings: dict[str, Any] = {
            "architectures": [ARCHITECTURE],
            "model_type": "llama",
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": self.rope_theta,
            "rope_scaling": dict(self.rope_scaling) or None,
            "max_position_embeddings": self.max_position_embeddings,
            "vocab_size": self.vocab_size,
            "draft_vocab_size": None if self.borrowed else self.draft_vocab_size,
            "tie_word_embeddings": self.tied,
            "attention_bias": self.output_bias,
            "torch_dtype": str(dtype).removeprefix("torch."),
        }
        if self.target_hidden_size is not None:
            settings["target_hidden_size"] = self.target_hidden_size
        if self.num_aux_hidden_states != DEFAULT_NUM_AUX:
            settings["num_aux_hidden_states"] = self.num_aux_hidden_states
        flags = {"bias": self.fc_bias} | {
            name: getattr(self, name) for name in ("fc_norm", "norm_before_fc", "norm_output")
        }
        return settings | {name: True for name, on in flags.items() if on}

    @classmethod
    def from_json(cls, settings: Mapping[str, Any]) -> DrafterConfig:
        """Read the content of a `config.json`.

        Raises NotComputedError where it asks for what this reference does not compute.
        """
        return cls.of(draft_config(settings))

    @classmethod
    def of(cls, draft: DraftConfig) -> DrafterConfig:
        """Take the sizes as SGLang does. Raises NotComputedError."""
        raw = draft.raw
        _refuse(draft)
        try:
            dims = dims_of(draft, contract_for(COMPUTED_AS))
            theta, scaling = stated(raw)
        except (ContractError, RopeError) as error:
            raise NotComputedError(str(error)) from error
        config = cls(
            hidden_size=dims.hidden,
            intermediate_size=dims.intermediate,
            num_attention_heads=dims.heads,
            num_key_value_heads=dims.kv_heads,
            head_dim=dims.head_dim,
            vocab_size=dims.vocab,
            draft_vocab_size=dims.draft_vocab,
            max_position_embeddings=_positions(draft),
            num_hidden_layers=dims.layers,
            target_hidden_size=draft.target_hidden_size,
            num_aux_hidden_states=dims.aux,
            rms_norm_eps=_number(raw, "rms_norm_eps", 1e-6),
            rope_theta=theta,
            rope_scaling=scaling,
            latent=LatentSizes(**dims.mla) if dims.mla else None,
            fc_bias=dims.fc_bias,
            output_bias=dims.o_bias,
            fc_norm=dims.fc_norm,
            norm_before_fc=dims.norm_before_fc,
            norm_output=bool(raw.get("norm_output")),
            tied=dims.tied,
            borrowed=dims.borrowed,
            shares_embedding=dims.shares_embedding,
        )
        try:
            config.rope.check()
        except RopeError as error:
            raise NotComputedError(str(error)) from error
        return config


_ONLY: Mapping[str, tuple[Any, ...]] = {
    "hidden_act": (None, "silu"),
    "partial_rotary_factor": (None, 1, 1.0),
    "rope_is_neox_style": (None, True),
    "rope_interleave": (None, True),
}
"""Fields that SGLang heeds, and the values of them that are computed here."""


def _refuse(draft: DraftConfig) -> None:
    """Raise NotComputedError for what is not computed, whatever the sizes are."""
    for fault in draft.problems:
        raise NotComputedError(f"{fault.file}: {fault.detail}")
    for name, only in _ONLY.items():
        if draft.raw.get(name) not in only:
            raise NotComputedError(f"{name} = {draft.raw[name]!r} is not computed by the reference")
    if draft.quantization:
        method = draft.quantization.get("quant_method") or draft.quantization.get("quant_algo")
        raise NotComputedError(
            f"the weights are quantised ({method}), which the reference does not compute; replay "
            "the checkpoint they were made from"
        )


def _positions(draft: DraftConfig) -> int:
    if draft.max_position_embeddings is None:
        raise NotComputedError("max_position_embeddings is missing from config.json")
    return draft.max_position_embeddings


def _number(raw: Mapping[str, Any], key: str, otherwise: float) -> float:
    value = raw.get(key, otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotComputedError(f"{key} is {value!r}; it must be a number")
    return float(value)
