"""The dimensions of a drafter, as its `config.json` states them to SGLang."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

ARCHITECTURE = "LlamaForCausalLMEagle3"
DEFAULT_NUM_AUX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterConfig:
    """What a Llama-style EAGLE-3 drafter is built from; the names are those of `config.json`."""

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    draft_vocab_size: int
    max_position_embeddings: int
    target_hidden_size: int | None = None
    num_aux_hidden_states: int = DEFAULT_NUM_AUX
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0

    @property
    def target_width(self) -> int:
        """Width of one aux state: `target_hidden_size`, the drafter's own where there is none."""
        return self.target_hidden_size or self.hidden_size

    @property
    def fused_width(self) -> int:
        """Input width of `fc`: aux states x target hidden."""
        return self.num_aux_hidden_states * self.target_width

    def to_json(self, dtype: torch.dtype) -> dict[str, Any]:
        """Return the content of `config.json` for weights stored in `dtype`."""
        settings: dict[str, Any] = {
            "architectures": [ARCHITECTURE],
            "model_type": "llama",
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": 1,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": self.rope_theta,
            "rope_scaling": None,
            "max_position_embeddings": self.max_position_embeddings,
            "vocab_size": self.vocab_size,
            "draft_vocab_size": self.draft_vocab_size,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "torch_dtype": str(dtype).removeprefix("torch."),
        }
        if self.target_hidden_size is not None:
            settings["target_hidden_size"] = self.target_hidden_size
        if self.num_aux_hidden_states != DEFAULT_NUM_AUX:
            settings["num_aux_hidden_states"] = self.num_aux_hidden_states
        return settings

    @classmethod
    def from_json(cls, settings: Mapping[str, Any]) -> DrafterConfig:
        """Read the content of a `config.json`.

        Raises ValueError where it asks for something this reference does not compute.
        """
        for name, only in _UNSUPPORTED.items():
            if settings.get(name) not in only:
                raise ValueError(f"{name} = {settings[name]!r} is not computed by the reference")
        aux_ids = (settings.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids")
        num_aux = settings.get("num_aux_hidden_states")
        return cls(
            hidden_size=settings["hidden_size"],
            intermediate_size=settings["intermediate_size"],
            num_attention_heads=settings["num_attention_heads"],
            num_key_value_heads=settings["num_key_value_heads"],
            head_dim=settings.get("head_dim")
            or settings["hidden_size"] // settings["num_attention_heads"],
            vocab_size=settings["vocab_size"],
            draft_vocab_size=settings["draft_vocab_size"],
            max_position_embeddings=settings["max_position_embeddings"],
            target_hidden_size=settings.get("target_hidden_size"),
            num_aux_hidden_states=num_aux or (len(aux_ids) if aux_ids else DEFAULT_NUM_AUX),
            rms_norm_eps=settings["rms_norm_eps"],
            rope_theta=settings.get("rope_theta", 10000.0),
        )


_UNSUPPORTED: Mapping[str, tuple[Any, ...]] = {
    "architectures": ([ARCHITECTURE],),
    "num_hidden_layers": (1,),
    "hidden_act": ("silu",),
    "rope_scaling": (None,),
    "rope_parameters": (None,),
    "tie_word_embeddings": (None, False),
    "bias": (None, False),
    "fc_norm": (None, False),
    "use_aux_norm": (None, False),
    "norm_before_fc": (None, False),
    "norm_output": (None, False),
}
