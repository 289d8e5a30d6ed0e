"""Replays with one thing changed: which change would mend a drafter, which fault a server shows.

The target is run once over each text; what differs from trial to trial is the drafter, or which of
the target's states it is fed, in which order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from torch import Tensor

from eagle3_checks.checkpoint.manifest import read_manifest
from eagle3_checks.facts import RequestSample, Trial, Trials
from eagle3_checks.reference.changes import Known, changes, sharing, with_weights
from eagle3_checks.reference.checkpoint import load_drafter
from eagle3_checks.reference.greedy import Encoder, GreedyTarget
from eagle3_checks.reference.oracle import Asked, Plan, check_width, encode
from eagle3_checks.reference.replay import Text, counted, verify

if TYPE_CHECKING:
    from pathlib import Path

    from eagle3_checks.reference.drafter import Drafter

FEW = 3
"""States up to which every order is tried; of more, the reverse alone."""
OFFSET = 64
"""Positions by which a server is supposed to be off while it drafts."""
States = Mapping[int, Tensor]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One trial: a drafter, and the states it is fed."""

    name: str
    cause: str = ""
    told: str = ""
    drafter: Drafter
    boundaries: tuple[int, ...]
    bare: bool = False
    """Whether the states lack the residual."""


@dataclass(frozen=True)
class Read:
    """A text of the target with every state that a trial may want, each [T, Ht]."""

    text: Text
    states: States
    bare: States

    def fed(self, case: Case) -> Text:
        """Return the text with the states of one trial."""
        held = self.bare if case.bare else self.states
        return replace(self.text, aux=torch.cat([held[b] for b in case.boundaries], dim=-1))


@dataclass
class Count:
    """What a trial came to."""

    histograms: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)

    def add(self, sample: RequestSample) -> None:
        """Count a prompt."""
        self.histograms[sample.prompt_set, sample.prompt_id] = sample.histogram or ()

    def trial(self, case: Case, served: Mapping[tuple[str, str], tuple[int, ...]]) -> Trial:
        """Sum the prompts up."""
        whole = [sum(column) for column in zip(*self.histograms.values(), strict=True)]
        steps = max(1, sum(whole))
        shares = tuple(sum(whole[depth:]) / steps for depth in range(1, len(whole)))
        return Trial(
            name=case.name,
            cause=case.cause,
            change=case.told,
            accept_length=1 + sum(shares),
            per_position=shares,
            distance=_distance(self.histograms, served),
        )


def try_changes(plan: Plan, asked: Sequence[Asked], served: Iterable[RequestSample]) -> Trials:
    """Replay the prompts with every change and every fault there is a name for.

    `served` are the counts that the server reported of the same prompts. Raises what a replay
    raises.
    """
    reported = {(s.prompt_set, s.prompt_id): s.histogram for s in served if s.histogram}
    dtype = getattr(torch, plan.dtype)
    target = GreedyTarget(plan.target, plan.boundaries, dtype, plan.device)
    drafter = load_drafter(
        plan.drafter, target.embedding, head=target.head, dtype=dtype, device=plan.device
    )
    check_width(len(plan.boundaries) * target.embedding.shape[1], drafter)
    unchanged = Case(name="unchanged", drafter=drafter, boundaries=plan.boundaries)
    cases = _Cases(plan, drafter, target)
    texts = list(_read(plan, asked, target, cases.boundaries))

    def tried(case: Case) -> Trial:
        count = Count()
        for read in texts:
            text = read.fed(case)
            _, walk = verify(case.drafter, text, plan.speculation, plan.new_tokens, plan.ends)
            count.add(counted(text, walk, plan.speculation, plan.new_tokens))
        return count.trial(case, reported)

    told = tried(unchanged)
    return Trials(
        prompts=len(texts),
        verify_steps=sum(len(r.text.tokens) - r.text.prompt_tokens for r in texts),
        unchanged=told,
        repairs=tuple(map(tried, cases.repairs())),
        faults=tuple(map(tried, cases.faults())),
        ablations=tuple(map(tried, cases.ablations())),
        coverage=_coverage(texts, drafter),
    )


class _Cases:
    """Every trial of one drafter."""

    def __init__(self, plan: Plan, drafter: Drafter, target: GreedyTarget) -> None:
        self.drafter = drafter
        self.stated = plan.boundaries
        self.depth = len(target.model.get_decoder().layers)
        self._known = _known(plan.drafter, drafter, target)

    @property
    def boundaries(self) -> tuple[int, ...]:
        """Every state that a trial wants."""
        wanted = {b for states, _ in self._layers() for b in states}
        return tuple(sorted(wanted | set(self.stated)))

    def repairs(self) -> Iterator[Case]:
        """Yield what would mend the drafter."""
        for change in changes(self.drafter, self._known):
            yield self._case(change.cause, change.told, change.drafter)
        yield from self._fed()

    def faults(self) -> Iterator[Case]:
        """Yield what a server may do wrong."""
        yield from self._fed()
        yield replace(self._case("residual", "states without the residual"), bare=True)
        if self.drafter.config.target_width == self.drafter.config.hidden_size:
            for place, boundary in enumerate(self.stated):
                one = self._case("fusion", f"aux state {place + 1} alone and no fc")
                yield replace(one, boundaries=(boundary,))
        moved = sharing(self.drafter)
        moved.embed_tokens = moved.embed_tokens.roll(1, 0)
        yield self._case("embedding", "an embedding moved by one row", moved)
        rolled = with_weights(self.drafter, lm_head=self.drafter.lm_head.weight.roll(1, 0))
        yield self._case("vocabulary", "a head moved by one row", rolled)
        first = sharing(self.drafter)
        first.d2t = torch.zeros_like(first.d2t)
        yield self._case("vocabulary", "no d2t", first)
        yield self._case("positions", f"positions {OFFSET} off while drafting", _off(self.drafter))
        blank = {
            f"midlayer.{name.removesuffix('.weight')}": torch.zeros_like(weight)
            for name, weight in self.drafter.midlayer.named_parameters()
            if name.endswith(".weight")
        }
        empty = with_weights(self.drafter, **blank)
        yield self._case("loaded-weights", "a decoder layer of zeros", empty)
        source = torch.Generator().manual_seed(0)
        drowned = {
            name.removesuffix(".weight"): weight + weight.std() * _noise(weight, source)
            for name, weight in self.drafter.named_parameters()
            if name.endswith(".weight") and weight.dim() > 1
        }
        other = with_weights(self.drafter, **drowned)
        yield self._case("loaded-weights", "as much noise as weights", other)

    def ablations(self) -> Iterator[Case]:
        """Yield the drafter without one of its aux states."""
        weight = self.drafter.fc.weight
        width = weight.shape[1] // len(self.stated)
        for place in range(len(self.stated)):
            less = weight.clone()
            less[:, place * width : (place + 1) * width] = 0
            told = f"aux state {place + 1} left out"
            yield self._case("aux-unused", told, with_weights(self.drafter, fc=less))

    def _fed(self) -> Iterator[Case]:
        """Yield other states, and the same in other orders."""
        for states, told in self._layers():
            yield replace(self._case("aux-layers", told), boundaries=states)
        count = len(self.stated)
        orders = permutations(range(count)) if count <= FEW else [tuple(range(count))[::-1]]
        for order in orders:
            if order != tuple(range(count)):
                told = f"the aux states in the order {', '.join(str(i + 1) for i in order)}"
                states = tuple(self.stated[i] for i in order)
                yield replace(self._case("aux-order", told), boundaries=states)

    def _layers(self) -> Iterator[tuple[tuple[int, ...], str]]:
        """Yield other layers that are often meant: the neighbours, and SGLang's default."""
        usual = (2, self.depth // 2, self.depth - 3)
        told = {tuple(b + by for b in self.stated): by for by in (1, -1)}
        for states, by in told.items():
            if min(states) >= 0 and max(states) <= self.depth:
                yield states, f"states one layer {'later' if by > 0 else 'earlier'}"
        if len(set(usual)) == len(self.stated) and usual != self.stated and usual not in told:
            yield usual, f"the default states {usual}"

    def _case(self, cause: str, told: str, drafter: Drafter | None = None) -> Case:
        return Case(
            name=f"{cause}: {told}",
            cause=cause,
            told=told,
            drafter=drafter or self.drafter,
            boundaries=self.stated,
        )


def _noise(weight: Tensor, source: torch.Generator) -> Tensor:
    return torch.randn(weight.shape, generator=source).to(weight)


def _off(drafter: Drafter) -> Drafter:
    """Return a drafter whose positions are off in the steps after the first."""
    changed = sharing(drafter)
    turn, depths = changed.config.rope, [0]

    class Displaced:
        @staticmethod
        def turn(positions: Tensor) -> Any:
            return turn.turn(positions + (OFFSET if depths[0] else 0))

    class Config:
        rope = Displaced()

        def __getattr__(self, name: str) -> Any:
            return getattr(drafter.config, name)

    advance = changed.advance

    def noting(tokens: Tensor, hidden: Tensor, depth: int, memory: Any) -> tuple[Tensor, Tensor]:
        depths[0] = depth
        return advance(tokens, hidden, depth, memory)

    changed.config = Config()  # type: ignore[assignment] # stands in for it
    changed.advance = noting  # type: ignore[method-assign]
    return changed


def _read(
    plan: Plan, asked: Sequence[Asked], target: GreedyTarget, boundaries: tuple[int, ...]
) -> Iterator[Read]:
    encoder = Encoder(plan.target)
    for prompt in asked:
        ids = encode(encoder, prompt, chat=plan.chat)
        tokens = target.write(torch.tensor([ids]), plan.written)
        states, bare = _states(target, tokens, boundaries)
        text = Text(
            prompt_id=prompt.prompt_id,
            prompt_set=prompt.prompt_set,
            tokens=tokens[0],
            prompt_tokens=len(ids),
            aux=torch.empty(0),
        )
        yield Read(text=text, states=states, bare=bare)


@torch.no_grad()
def _states(
    target: GreedyTarget, tokens: Tensor, boundaries: tuple[int, ...]
) -> tuple[States, States]:
    """Return the states at some boundaries, and what the layer before each added last."""
    layers = target.model.get_decoder().layers
    added: dict[int, Tensor] = {}

    def taking(boundary: int) -> Callable[..., None]:
        def hook(_: Any, __: Any, output: Any) -> None:
            added[boundary] = (output[0] if isinstance(output, tuple) else output)[0]

        return hook

    hooks = [
        layers[b - 1].mlp.register_forward_hook(taking(b))
        for b in boundaries
        if b and hasattr(layers[b - 1], "mlp")
    ]
    try:
        out = target.model(
            input_ids=tokens.to(target.device), use_cache=False, output_hidden_states=True
        )
    finally:
        for hook in hooks:
            hook.remove()
    states = {b: out.hidden_states[b][0] for b in boundaries}
    return states, {b: added.get(b, state) for b, state in states.items()}


def _known(folder: Path, drafter: Drafter, target: GreedyTarget) -> Known:
    config = target.model.config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or {}
    heads = getattr(config, "num_attention_heads", None)
    width = getattr(config, "head_dim", None) or (config.hidden_size // heads if heads else None)
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    scaling = {k: v for k, v in rope.items() if k != "rope_theta"}
    plain = scaling.get("rope_type", "default") == "default"
    norm = getattr(target.model.get_decoder(), "norm", None)
    return Known(
        theta=rope.get("rope_theta") or getattr(config, "rope_theta", None),
        scaling={} if plain else scaling,
        heads=(heads, kv_heads, width) if heads and kv_heads and width else None,
        head=target.head,
        norm=getattr(norm, "weight", None),
        embedding=_own_embedding(folder) if drafter.config.shares_embedding else None,
    )


def _own_embedding(folder: Path) -> Tensor | None:
    for name, info in read_manifest(folder).tensors.items():
        if name.endswith("embed_tokens.weight"):
            with safe_open(folder / info.file, framework="pt") as stream:
                held: Tensor = stream.get_tensor(name)
                return held
    return None


def _coverage(texts: Sequence[Read], drafter: Drafter) -> float:
    """Return the share of the target's new tokens that the draft vocabulary holds."""
    new = torch.cat([read.text.tokens[read.text.prompt_tokens :] for read in texts])
    return torch.isin(new, drafter.kept.cpu()).float().mean().item()


def _distance(
    made: Mapping[tuple[str, str], tuple[int, ...]],
    served: Mapping[tuple[str, str], tuple[int, ...]],
) -> float | None:
    """Return the share of verify steps that two runs of the same prompts count differently."""
    both = [(made[key], served[key]) for key in made if key in served]
    whole = sum(sum(one) + sum(other) for one, other in both)
    if not whole:
        return None
    apart = sum(abs(a - b) for one, other in both for a, b in zip(one, other, strict=False))
    return apart / whole
