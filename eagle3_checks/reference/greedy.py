"""A target's greedy text and aux states, from transformers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.utils import logging

with warnings.catch_warnings():
    # Where warnings are errors, one that sentencepiece gives as it is imported ends the process.
    warnings.simplefilter("ignore")
    from transformers import AutoModelForCausalLM, AutoTokenizer


class TargetError(RuntimeError):
    """A target that transformers cannot run here; the message says why."""


class GreedyTarget:
    """The target of a folder, run by transformers; no code of the checkpoint is run."""

    def __init__(
        self, folder: Path, boundaries: Sequence[int], dtype: torch.dtype, device: str
    ) -> None:
        """`boundaries` are the states to hand over, as `contract.capture` numbers them.

        Raises TargetError.
        """
        logging.disable_progress_bar()
        try:
            self.model = AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, trust_remote_code=False, local_files_only=True
            )
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            raise TargetError(f"transformers cannot load the target: {_first(error)}") from error
        self.model.to(device).eval().requires_grad_(requires_grad=False)
        self.boundaries = tuple(boundaries)
        self.device = device
        self._layers = self.model.get_decoder().layers

    @property
    def embedding(self) -> Tensor:
        """Input embedding [V, Ht]."""
        weight: Tensor = self.model.get_input_embeddings().weight
        return weight

    @property
    def head(self) -> Tensor | None:
        """Output embedding [V, Ht]."""
        head = self.model.get_output_embeddings()
        return None if head is None else head.weight

    @torch.no_grad()
    def write(self, prompts: Tensor, new_tokens: int) -> Tensor:
        """Continue prompts [B, T] of one length greedily, past end tokens: [B, T + new_tokens]."""
        fed, text, past = prompts.to(self.device), [prompts], None
        for _ in range(new_tokens):
            out = self.model(input_ids=fed, past_key_values=past, use_cache=True)
            past = out.past_key_values
            fed = out.logits[:, -1:].argmax(-1)
            text.append(fed.cpu())
        return torch.cat(text, dim=1)

    @torch.no_grad()
    def states(self, text: Tensor) -> Tensor:
        """Run over a text [B, T]; return its aux states [B, T, K*Ht], in ascending order."""
        seen: dict[int, Tensor] = {}
        hooks = [
            layer.register_forward_pre_hook(_taking(seen, number), with_kwargs=True)
            for number, layer in enumerate(self._layers)
            if number in self.boundaries
        ]
        last = len(self._layers)
        if last in self.boundaries:
            hooks.append(self._layers[-1].register_forward_hook(_leaving(seen, last)))
        try:
            self.model(input_ids=text.to(self.device), use_cache=False, logits_to_keep=1)
        finally:
            for hook in hooks:
                hook.remove()
        return torch.cat([seen[boundary] for boundary in sorted(self.boundaries)], dim=-1)


class Encoder:
    """The target's tokenizer, as the server uses it on prompts."""

    def __init__(self, folder: Path) -> None:
        """Raise TargetError where there is none that runs without code of the checkpoint."""
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(
                folder, trust_remote_code=False, local_files_only=True
            )
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise TargetError(
                f"the target's tokenizer cannot be loaded: {_first(error)}"
            ) from error

    def text(self, text: str) -> list[int]:
        """Encode a raw text."""
        return [int(token) for token in self.tokenizer(text)["input_ids"]]

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Encode a chat by the target's template. Raises TargetError."""
        try:
            encoded = self.tokenizer.apply_chat_template(
                list(messages), add_generation_prompt=True, tokenize=True, return_dict=True
            )
        except ValueError as error:
            raise TargetError(
                f"the target's chat template cannot be used: {_first(error)}"
            ) from error
        return [int(token) for token in encoded["input_ids"]]


def _taking(seen: dict[int, Tensor], boundary: int) -> Any:
    def hook(_: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        seen[boundary] = args[0] if args else kwargs["hidden_states"]

    return hook


def _leaving(seen: dict[int, Tensor], boundary: int) -> Any:
    def hook(_: Any, __: Any, output: Any) -> None:
        seen[boundary] = output[0] if isinstance(output, tuple) else output

    return hook


def _first(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
