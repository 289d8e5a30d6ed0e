"""The damaging plugin does what its names say, and nothing unless it is asked to."""

from __future__ import annotations

from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

HIDDEN = 4


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down_proj = nn.Linear(2 * HIDDEN, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down_proj(torch.cat([x, x * x], dim=-1))
        return out


class Layer(nn.Module):
    """Adds its number to the hidden state."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.mlp = Mlp()
        self.number = number

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = hidden + self.mlp(torch.full_like(hidden, float(self.number + 1)))
        return out


class Inner(nn.Module):
    """Captures what enters the layers it is told, as SGLang's targets do."""

    def __init__(self, *, packed: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(i) for i in range(8))
        self.layers_to_capture = [2, 4, 5]
        self.packed = packed

    def forward(self, hidden: torch.Tensor) -> Any:
        states = []
        for number, layer in enumerate(self.layers):
            if number in self.layers_to_capture:
                states.append(hidden.clone())
            hidden = layer(hidden)
        return hidden, torch.cat(states, dim=-1) if self.packed else states


class Target(nn.Module):
    def __init__(self, *, packed: bool = False) -> None:
        super().__init__()
        self.model = Inner(packed=packed)

    def states(self) -> list[torch.Tensor]:
        with torch.no_grad():
            _, states = self.model(torch.ones(2, HIDDEN))
        if isinstance(states, torch.Tensor):
            return [states[:, at : at + HIDDEN] for at in range(0, states.shape[1], HIDDEN)]
        return list(states)


@pytest.fixture(params=["list", "packed"])
def target(request: pytest.FixtureRequest) -> Target:
    torch.manual_seed(0)
    return Target(packed=request.param == "packed")


def after_layers(target: Target) -> list[torch.Tensor]:
    """Return what enters each layer, and what leaves the last."""
    states = [torch.ones(2, HIDDEN)]
    with torch.no_grad():
        for layer in target.model.layers:
            states.append(layer(states[-1]))
    return states


def test_shifted_layers(damage: Any, target: Target) -> None:
    whole = after_layers(target)
    damage.target.damage("shifted-layers", target)
    for seen, layer in zip(target.states(), (3, 5, 6), strict=True):
        assert torch.equal(seen, whole[layer])
    assert target.model.layers_to_capture == [2, 4, 5]


def test_swapped_states_and_one_state(damage: Any, target: Target) -> None:
    healthy = target.states()
    damage.target.damage("swapped-states", target)
    assert all(map(torch.equal, target.states(), healthy[::-1]))
    damage.target.damage("one-state", target)
    assert len(target.states()) == 1


def test_a_state_without_its_residual(damage: Any, target: Target) -> None:
    whole = after_layers(target)
    damage.target.damage("no-residual", target)
    for seen, layer in zip(target.states(), (2, 4, 5), strict=True):
        torch.testing.assert_close(seen, whole[layer] - whole[layer - 1])


def test_a_partial_sum(damage: Any, target: Target) -> None:
    whole = after_layers(target)
    damage.target.damage("partial-sums", target)
    for seen, layer in zip(target.states(), (2, 4, 5), strict=True):
        mlp: Any = target.model.layers[layer - 1].mlp
        with torch.no_grad():
            rest = mlp.down_proj.weight[:, HIDDEN:] @ torch.full((HIDDEN,), float(layer**2))
        torch.testing.assert_close(seen, whole[layer] - rest)


class Mode(IntEnum):
    EXTEND = 1
    DECODE = 2

    def is_decode(self) -> bool:
        return self is Mode.DECODE


class DraftInner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(8, HIDDEN)
        self.layers = nn.ModuleList([nn.Linear(HIDDEN, HIDDEN)])

    def forward(self, _tokens: Any, positions: torch.Tensor, _batch: Any) -> torch.Tensor:
        return positions


class Drafter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = DraftInner()
        self.lm_head = nn.Linear(HIDDEN, 8, bias=False)


@pytest.mark.parametrize(
    ("name", "part"), [("wrong-embedding", "model.embed_tokens"), ("wrong-head", "lm_head")]
)
def test_moved_rows_leave_the_targets_alone(damage: Any, name: str, part: str) -> None:
    drafter: Any = Drafter()
    shared = drafter.get_submodule(part).weight
    before = shared.detach().clone()
    damage.drafter.damage(name, drafter)
    assert torch.equal(drafter.get_submodule(part).weight.detach(), before.roll(1, 0))
    assert torch.equal(shared.detach(), before)


def test_positions_are_off_while_drafting_alone(damage: Any) -> None:
    drafter: Any = Drafter()
    damage.drafter.damage("position-offset", drafter)
    for mode, moved in ((Mode.EXTEND, 0), (Mode.DECODE, damage.drafter.OFFSET)):
        out = drafter.model(None, torch.arange(3), SimpleNamespace(forward_mode=mode))
        assert out.tolist() == [moved, moved + 1, moved + 2]


def test_weights_that_never_came(damage: Any) -> None:
    drafter: Any = Drafter()
    damage.drafter.damage("zeroed-layer", drafter)
    assert not any(p.any() for p in drafter.model.layers.parameters())
    assert drafter.lm_head.weight.any()


def test_noise_spares_the_embedding(damage: Any) -> None:
    drafter: Any = Drafter()
    before = {name: value.detach().clone() for name, value in drafter.named_parameters()}
    damage.drafter.damage("noisy-weights", drafter)
    same = {name for name, value in drafter.named_parameters() if torch.equal(value, before[name])}
    assert same == {"model.embed_tokens.weight", "model.layers.0.bias"}


def step(damage: Any, **changes: Any) -> Any:
    logits = torch.arange(8.0).repeat(3, 1)
    given = {
        "request": SimpleNamespace(output_ids=[0] * 20, cached_tokens=0, grammar=None),
        "logits": logits,
        "drafted": torch.tensor([1, 2, 3]),
        "number": 5,
        "alone": True,
    }
    return damage.verify.Step(**given | changes)


@pytest.mark.parametrize(
    ("name", "changes", "chosen"),
    [
        ("accepts-wrong-drafts", {}, [2, 7, 7]),
        ("accepts-wrong-drafts", {"number": 4}, [7, 7, 7]),
        ("token-zero", {}, [0, 0, 0]),
        ("token-zero", {"request": SimpleNamespace(output_ids=[0] * 48)}, [7, 7, 7]),
        ("batch-dependent", {}, [7, 7, 7]),
        ("batch-dependent", {"alone": False}, [6, 7, 7]),
        ("cache-dependent", {}, [7, 7, 7]),
        ("cache-dependent", {"request": SimpleNamespace(cached_tokens=3)}, [6, 7, 7]),
        ("dies-on-grammar", {}, [7, 7, 7]),
    ],
)
def test_choices_of_the_target(
    damage: Any, name: str, changes: dict[str, Any], chosen: list[int]
) -> None:
    turn = step(damage, **changes)
    damage.verify._CHANGES[name](turn)
    assert turn.logits.argmax(-1).tolist() == chosen


def test_noise_differs_and_a_grammar_kills(damage: Any) -> None:
    turns = [step(damage), step(damage)]
    for turn in turns:
        damage.verify._CHANGES["not-deterministic"](turn)
    assert not torch.equal(turns[0].logits, turns[1].logits)
    with pytest.raises(RuntimeError, match="constrained"):
        damage.verify._CHANGES["dies-on-grammar"](
            step(damage, request=SimpleNamespace(grammar=object()))
        )


def test_sampling_sees_the_changed_logits(damage: Any) -> None:
    hook = damage.verify.around_sampling("token-zero")
    request = SimpleNamespace(output_ids=[0] * 40)
    verify_input = SimpleNamespace(draft_token_num=3, draft_token=torch.tensor([1, 2, 3]))
    idle = SimpleNamespace(is_idle=lambda: False)
    batch = SimpleNamespace(forward_mode=idle, reqs=[request])
    out = SimpleNamespace(next_token_logits=torch.arange(8.0).repeat(3, 1))
    seen = hook(lambda *given, **more: (given, more), verify_input, batch, out, "mask", more=1)
    assert seen == ((verify_input, batch, out, "mask"), {"more": 1})
    assert out.next_token_logits.argmax(-1).tolist() == [0, 0, 0]


def test_nothing_is_done_unasked(damage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EAGLE3_DAMAGE", raising=False)
    damage.hooks.activate()
    monkeypatch.setenv("EAGLE3_DAMAGE", "shifted-layer")
    with pytest.raises(SystemExit, match="no such damage; there are shifted-layers"):
        damage.hooks.activate()


def test_every_name_has_its_damage(damage: Any) -> None:
    table = damage.table
    assert set(table.VERIFY) == set(damage.verify._CHANGES)
    assert len(table.TITLES) == len(table.TARGET) + len(table.DRAFTER) + len(table.VERIFY)
