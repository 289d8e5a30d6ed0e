"""The tiny target: an ordinary Llama of transformers, trained from nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetConfig:
    """Dimensions of the target."""

    vocab_size: int = 2048
    hidden_size: int = 128
    intermediate_size: int = 352
    num_hidden_layers: int = 8
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 32
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0

    def to_json(self) -> dict[str, Any]:
        """Return the content of `config.json`."""
        return {
            "architectures": ["LlamaForCausalLM"],
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
            "rope_scaling": None,
            "max_position_embeddings": self.max_position_embeddings,
            "vocab_size": self.vocab_size,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "mlp_bias": False,
            "bos_token_id": 0,
            "eos_token_id": 1,
            "torch_dtype": "float16",
        }


def build_target(config: TargetConfig) -> LlamaForCausalLM:
    """Build an untrained target in float32."""
    settings = config.to_json()
    for name in ("architectures", "model_type", "torch_dtype", "rope_scaling"):
        settings.pop(name)
    return LlamaForCausalLM(LlamaConfig(**settings)).float()


def save_target(model: LlamaForCausalLM, config: TargetConfig, folder: Path) -> None:
    """Write config, generation config and the weights in float16."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config.to_json(), indent=2) + "\n")
    generation = {"bos_token_id": 0, "eos_token_id": 1, "do_sample": False}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    tensors = {
        name: tensor.detach().half().contiguous() for name, tensor in model.state_dict().items()
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def load_target(folder: Path) -> LlamaForCausalLM:
    """Read a saved target in float32, in evaluation mode and without gradients."""
    settings = json.loads((folder / "config.json").read_text())
    for name in ("architectures", "model_type", "torch_dtype", "rope_scaling"):
        settings.pop(name, None)
    model = LlamaForCausalLM(LlamaConfig(**settings)).float()
    model.load_state_dict(
        {k: v.float() for k, v in load_file(folder / "model.safetensors").items()}
    )
    return model.eval().requires_grad_(False)


def capture_layers(num_hidden_layers: int) -> tuple[int, ...]:
    """Return the layers whose input SGLang hands to the drafter by default: 2, N//2, N-3.

    A set: below seven layers some of the three are the same, and fewer states are captured.
    """
    wanted = {2, num_hidden_layers // 2, num_hidden_layers - 3}
    return tuple(sorted(layer for layer in wanted if 0 <= layer < num_hidden_layers))


@torch.no_grad()
def read_target(model: LlamaForCausalLM, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Run the target over ids [B, T]; return aux states [B, T, K*Ht] and logits [B, T, V]."""
    out = model(input_ids=ids, output_hidden_states=True, use_cache=False)
    layers = capture_layers(model.config.num_hidden_layers)
    return torch.cat([out.hidden_states[layer] for layer in layers], dim=-1), out.logits
