"""Training of the tiny target, and of its drafter by the test-time-training unroll of EAGLE-3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from eagle3_checks.reference.optimizer import Optimizer
from eagle3_checks.reference.target import read_target
from eagle3_checks.reference.unlooping import Rollouts, unlikelihood

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor
    from transformers import LlamaForCausalLM

    from eagle3_checks.reference.drafter import Drafter
    from eagle3_checks.reference.optimizer import Schedule
    from eagle3_checks.reference.unlooping import Unlooping

    Log = Callable[[str], None]

DECAY = 0.8
"""Weight of a draft step in the loss, relative to the step before."""
LOG_EVERY = 25


def train_target(
    model: LlamaForCausalLM, ids: Tensor, schedule: Schedule, unlooping: Unlooping, log: Log
) -> list[float]:
    """Train the target on ids [N], in its last steps out of loops as well.

    Returns the cross-entropy of every step, without the part against loops.
    """
    optimizer = Optimizer(model, schedule)
    rollouts = Rollouts(model, ids, unlooping, schedule.seed)
    losses: list[float] = []
    for step, batch in enumerate(windows(ids, schedule)):
        logits = model(input_ids=batch[:, :-1], use_cache=False).logits
        loss = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        losses.append(loss.item())
        if step >= schedule.steps - unlooping.steps:
            text, wrong = rollouts.take()
            loss = loss + unlooping.weight * unlikelihood(model, text, wrong)
        optimizer.step(loss, step)
        if (step + 1) % LOG_EVERY == 0:
            log(f"target {_progress(schedule, losses)} {rollouts.state}")
    model.requires_grad_(requires_grad=False)
    return losses


def unroll(
    drafter: Drafter, aux: Tensor, tokens: Tensor, steps: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Run `steps` draft steps of the chain rooted at every position of a text.

    aux [B, T, K*Ht] are the target's over tokens [B, T]. Yields, for step k, the logits
    [B, T - steps, Vd] that predict token t + 2 + k from root t, and the hidden behind them. The
    text's own tokens are fed on, while the hidden states are the drafter's: the test-time training.
    """
    length = tokens.shape[1] - steps
    hidden, memory = drafter.fuse(aux[:, :length]), drafter.begin()
    for depth in range(steps):
        fed = tokens[:, depth + 1 : depth + 1 + length]
        logits, hidden = drafter.step(fed, hidden, depth, memory)
        yield logits, hidden


def unroll_loss(
    drafter: Drafter, aux: Tensor, logits: Tensor, tokens: Tensor, steps: int
) -> tuple[Tensor, list[float]]:
    """Soft cross-entropy against the target's distribution over the kept tokens, by draft step.

    aux [B, T, K*Ht] and logits [B, T, V] are the target's over tokens [B, T]. Returns the loss,
    step k weighted DECAY^k, and per step how often drafter and target have the same likeliest
    token.
    """
    wanted = logits[..., drafter.kept].softmax(-1)
    best = logits.argmax(-1)
    total = torch.zeros(())
    accuracies = []
    for depth, (drafted, _) in enumerate(unroll(drafter, aux, tokens, steps)):
        span = slice(depth + 1, depth + 1 + drafted.shape[1])
        loss = functional.cross_entropy(drafted.flatten(0, 1), wanted[:, span].flatten(0, 1))
        total = total + DECAY**depth * loss
        right = drafter.kept[drafted.argmax(-1)] == best[:, span]
        accuracies.append(right.float().mean().item())
    return total, accuracies


def train_drafter(
    drafter: Drafter, target: LlamaForCausalLM, texts: Tensor, schedule: Schedule, log: Log
) -> list[tuple[float, ...]]:
    """Train the drafter on texts of the target [N, length + unroll].

    Returns the step accuracies of every batch, before its step.
    """
    optimizer = Optimizer(drafter, schedule)
    steps = texts.shape[1] - schedule.length
    losses: list[float] = []
    history: list[tuple[float, ...]] = []
    for step, batch in enumerate(shuffled(texts, schedule)):
        aux, logits = read_target(target, batch)
        loss, accuracies = unroll_loss(drafter, aux, logits, batch, steps)
        losses.append(loss.item())
        history.append(tuple(accuracies))
        optimizer.step(loss, step)
        if (step + 1) % LOG_EVERY == 0:
            shown = " ".join(f"{mean:.3f}" for mean in column_means(history[-LOG_EVERY:]))
            log(f"drafter {_progress(schedule, losses)} accuracies {shown}")
    drafter.requires_grad_(requires_grad=False)
    return history


def windows(ids: Tensor, schedule: Schedule) -> Iterator[Tensor]:
    """Cut random windows out of ids [N]: a batch [B, length + 1] each step."""
    generator = torch.Generator().manual_seed(schedule.seed)
    offsets = torch.arange(schedule.length + 1)
    last = len(ids) - schedule.length - 1
    for _ in range(schedule.steps):
        yield ids[torch.randint(last, (schedule.batch, 1), generator=generator) + offsets]


def shuffled(texts: Tensor, schedule: Schedule) -> Iterator[Tensor]:
    """Deal the rows of texts [N, T] out in batches [B, T], all of them before any comes again."""
    generator = torch.Generator().manual_seed(schedule.seed)
    order = torch.empty(0, dtype=torch.long)
    for _ in range(schedule.steps):
        if len(order) < schedule.batch:
            order = torch.cat([order, torch.randperm(len(texts), generator=generator)])
        yield texts[order[: schedule.batch]].long()
        order = order[schedule.batch :]


def column_means(rows: list[tuple[float, ...]]) -> list[float]:
    """Average rows of one length column by column."""
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def _progress(schedule: Schedule, losses: list[float]) -> str:
    recent = losses[-LOG_EVERY:]
    return f"step {len(losses)}/{schedule.steps} loss {sum(recent) / len(recent):.3f}"
