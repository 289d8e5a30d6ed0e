"""Runs drafters with SGLang's real classes, in one process, on inputs from a file.

    python -m tests_cpu.serve.real_forward TARGET DRAFTER...

As ``real_loader`` it builds and fills each drafter as the draft worker does. Then it runs the model
over ``inputs.safetensors`` in the drafter's folder and writes ``outputs.safetensors`` beside it:
``states`` and ``logits`` of an extend pass on the aux states, and of one more on the states it
returned. The attention kernel alone is replaced, by a causal pass of plain torch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.models.deepseek_v2 import AttnForwardMethod
from torch.nn import functional

from tests_cpu.serve.real_loader import Loader


class CausalAttention(torch.nn.Module):
    """In the place of SGLang's attention layer: one text, no cache."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.heads, self.kv_heads = layer.tp_q_head_num, layer.tp_k_head_num
        self.width, self.value_width = layer.qk_head_dim, layer.v_head_dim
        self.scale = layer.scaling

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: Any, **__: Any
    ) -> torch.Tensor:
        group = self.heads // self.kv_heads
        q = q.reshape(-1, self.heads, self.width).transpose(0, 1)
        k = k.reshape(-1, self.kv_heads, self.width).transpose(0, 1)
        v = v.reshape(-1, self.kv_heads, self.value_width).transpose(0, 1)
        k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
        return out.transpose(0, 1).flatten(1)


@torch.no_grad()
def run(loader: Loader, folder: Path) -> None:
    """Build the drafter of a folder and write what it computes."""
    inputs = load_file(folder / "inputs.safetensors")
    model = loader.build(str(folder))
    dtype = next(p for p in model.parameters() if p.is_floating_point()).dtype
    embed, head = (
        torch.nn.Parameter(inputs[name].to(dtype), requires_grad=False)
        for name in ("embed", "head")
    )
    if model.load_lm_head_from_target:
        model.set_embed_and_head(embed, head)
    else:
        model.set_embed(embed)
    if hasattr(model.model, "midlayer"):
        latent = model.model.midlayer.self_attn
        latent.attn_mqa = CausalAttention(latent.attn_mqa)
        latent.dispatch_attn_forward_method = lambda _: AttnForwardMethod.MLA
    for layer in getattr(model.model, "layers", ()):
        layer.self_attn.attn = CausalAttention(layer.self_attn.attn)
    outputs: dict[str, torch.Tensor] = {}
    states = inputs["aux"].to(dtype)
    for turn in ("first", "second"):
        batch = SimpleNamespace(
            mm_input_embeds=None,
            attn_cp_metadata=None,
            forward_mode=ForwardMode.EXTEND,
            contains_mm_inputs=lambda: False,
            spec_info=SimpleNamespace(hidden_states=states),
        )
        positions = torch.arange(len(states))
        normed, (states,) = model.model(inputs["tokens"], positions, batch)
        rows = model.config.draft_vocab_size or model.config.vocab_size
        outputs[f"{turn}.logits"] = (normed @ model.lm_head.weight.T)[:, :rows].contiguous()
        outputs[f"{turn}.states"] = states.contiguous()
    save_file(outputs, folder / "outputs.safetensors")


def main() -> None:
    dtype, target, *drafters = sys.argv[1:]
    loader = Loader(target, drafters[0], dtype)
    for drafter in drafters:
        try:
            run(loader, Path(drafter))
        except Exception as error:  # noqa: BLE001 - whatever stops SGLang is an answer
            answer = {"drafter": drafter, "error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)  # noqa: T201
    print(json.dumps({"done": len(drafters)}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
