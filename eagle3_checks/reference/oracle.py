"""A drafter run the right way on its target: prompts in, the counts of each request out."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from eagle3_checks.reference.borrowed import borrowed_weights, read_rows
from eagle3_checks.reference.checkpoint import WeightsError, load_drafter
from eagle3_checks.reference.drafter_config import NotComputedError
from eagle3_checks.reference.greedy import Encoder, GreedyTarget, TargetError
from eagle3_checks.reference.replay import Text, counted, verify

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from eagle3_checks.facts import RequestSample
    from eagle3_checks.profile import Speculation
    from eagle3_checks.reference.drafter import Drafter
    from eagle3_checks.reference.drafting import Trees
    from eagle3_checks.reference.replay import Verified

__all__ = [
    "Asked",
    "NotComputedError",
    "Plan",
    "Stored",
    "TargetError",
    "WeightsError",
    "from_states",
    "from_transformers",
]

BATCH = 16
"""Prompts of one length that the target continues at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A prompt: raw text, or chat messages."""

    prompt_id: str
    prompt_set: str
    text: str = ""
    messages: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is run, and as what."""

    target: Path
    drafter: Path
    boundaries: tuple[int, ...]
    """The target's states that the drafter is fed, as `contract.capture` numbers them."""
    speculation: Speculation
    new_tokens: int
    ends: tuple[int, ...] = ()
    """Tokens that end an answer."""
    chat: bool = False
    """Whether raw texts go through the chat template too."""
    dtype: str = "float32"
    device: str = "cpu"

    @property
    def written(self) -> int:
        """Tokens that the target must write: the last verify step looks past the end."""
        return self.new_tokens + self.speculation.steps


def from_transformers(plan: Plan, asked: Sequence[Asked]) -> Iterator[RequestSample]:
    """Yield the counts of each prompt, its text and states being transformers'.

    Raises TargetError, NotComputedError and WeightsError.
    """
    return (sample for sample, _, _ in verified(plan, asked))


def verified(
    plan: Plan, asked: Sequence[Asked]
) -> Iterator[tuple[RequestSample, Trees, list[Verified]]]:
    """Yield of each prompt the counts, the trees of all positions and the walk over them."""
    dtype = getattr(torch, plan.dtype)
    target = GreedyTarget(plan.target, plan.boundaries, dtype, plan.device)
    drafter = load_drafter(
        plan.drafter, target.embedding, head=target.head, dtype=dtype, device=plan.device
    )
    for text in _texts(plan, asked, target, drafter):
        trees, walk = verify(drafter, text, plan.speculation, plan.new_tokens, plan.ends)
        yield counted(text, walk, plan.speculation, plan.new_tokens), trees, walk


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A text and its states in a file: float32, little-endian, a row a position but the last."""

    prompt_id: str
    prompt_set: str
    tokens: tuple[int, ...]
    prompt_tokens: int
    width: int
    path: Path


def from_states(plan: Plan, stored: Iterable[Stored]) -> Iterator[RequestSample]:
    """Yield the counts of each prompt, its text and states being those in the files.

    Raises NotComputedError and WeightsError.
    """
    embedding, head = borrowed_weights(plan.target)
    dtype = getattr(torch, plan.dtype)
    drafter = load_drafter(plan.drafter, embedding, head=head, dtype=dtype, device=plan.device)
    for one in stored:
        check_width(one.width, drafter)
        text = Text(
            prompt_id=one.prompt_id,
            prompt_set=one.prompt_set,
            tokens=torch.tensor(one.tokens),
            prompt_tokens=one.prompt_tokens,
            aux=read_rows(one.path, len(one.tokens) - 1, one.width),
        )
        _, walk = verify(drafter, text, plan.speculation, plan.new_tokens, plan.ends)
        yield counted(text, walk, plan.speculation, plan.new_tokens)


def _texts(
    plan: Plan, asked: Sequence[Asked], target: GreedyTarget, drafter: Drafter
) -> Iterator[Text]:
    """Continue the prompts, those of one length together."""
    encoder = Encoder(plan.target)
    by_length: dict[int, list[tuple[Asked, list[int]]]] = defaultdict(list)
    for prompt in asked:
        ids = encode(encoder, prompt, chat=plan.chat)
        by_length[len(ids)].append((prompt, ids))
    for length, group in by_length.items():
        for begin in range(0, len(group), BATCH):
            batch = group[begin : begin + BATCH]
            text = target.write(torch.tensor([ids for _, ids in batch]), plan.written)
            aux = target.states(text)
            check_width(aux.shape[-1], drafter)
            for (prompt, _), tokens, states in zip(batch, text, aux, strict=True):
                yield Text(
                    prompt_id=prompt.prompt_id,
                    prompt_set=prompt.prompt_set,
                    tokens=tokens,
                    prompt_tokens=length,
                    aux=states,
                )


def encode(encoder: Encoder, prompt: Asked, *, chat: bool) -> list[int]:
    """Return a prompt's ids; TargetError where it has fewer than two."""
    if prompt.messages or chat:
        messages = prompt.messages or ({"role": "user", "content": prompt.text},)
        ids = encoder.chat(messages)
    else:
        ids = encoder.text(prompt.text)
    if not ids:
        raise TargetError(f"prompt {prompt.prompt_id} has no tokens")
    return ids


def check_width(width: int, drafter: Drafter) -> None:
    """Raise WeightsError where the states are not what fc takes: SGLang might go past it."""
    config = drafter.config
    if width != config.fused_width:
        raise WeightsError(
            f"the target hands over {width} numbers a position; fc takes {config.fused_width} = "
            f"{config.num_aux_hidden_states} aux states x target hidden {config.target_width}"
        )
