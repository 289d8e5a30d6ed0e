"""What the probe says about a loader, whichever way the loader writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

Weights = Iterable[tuple[str, torch.Tensor]]


class Drafter(nn.Module):
    """A module with the shapes of parameters that drafters have."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(4, 6, bias=False)
        self.norm = nn.LayerNorm(4, bias=False)
        self.lm_head = nn.Linear(4, 5, bias=False)
        self.scale = nn.Parameter(torch.zeros(1))
        self.embed = nn.Embedding(8, 4)
        self.hot_token_id: torch.Tensor | None = None
        self.config = SimpleNamespace(draft_vocab_size=5)


def load(
    facts: Any, probe: Any, loader: Callable[[Drafter, Weights], Any], weights: Weights
) -> tuple[dict[str, list[str]], dict[str, Any], Drafter]:
    """Run a loader under watch: where each tensor went, the whole fact, and the module."""
    model = Drafter()
    watch = probe.load.LoadWatch(facts.recorder)
    watch.load_weights(loader, model, weights)
    fact = facts.only("load")
    return {tensor["name"]: tensor["into"] for tensor in fact["tensors"]}, fact, model


def by_name(model: Drafter, weights: Weights) -> None:
    """Write like SGLang's loaders do: through ``.data``, into slices of fused parameters."""
    rows = {"q": slice(0, 2), "k": slice(2, 4), "v": slice(4, 6)}
    parameters = dict(model.named_parameters())
    for name, tensor in weights:
        if name == "d2t":
            model.hot_token_id = tensor + torch.arange(len(tensor))
        elif name in rows:
            model.qkv.weight.data[rows[name]].copy_(tensor)
        elif name in parameters:
            parameters[name].data.copy_(tensor)


def test_healthy_load_is_traced_to_every_parameter(facts: Any, probe: Any) -> None:
    weights = {
        "q": torch.randn(2, 4),
        "k": torch.randn(2, 4),
        "v": torch.randn(2, 4),
        "norm.weight": torch.ones(4),
        "lm_head.weight": torch.randn(5, 4, dtype=torch.bfloat16),
        "d2t": torch.tensor([0, 2, 2, 2, 3]),
        "t2d": torch.ones(8, dtype=torch.bool),
    }
    into, fact, model = load(facts, probe, by_name, iter(weights.items()))
    assert into == {
        "q": ["qkv.weight"],
        "k": ["qkv.weight"],
        "v": ["qkv.weight"],
        "norm.weight": ["norm.weight"],
        "lm_head.weight": ["lm_head.weight"],
        "d2t": ["hot_token_id"],
        "t2d": [],
    }
    assert fact["class"] == "Drafter"
    assert fact["tensors"][4] == {
        "name": "lm_head.weight",
        "shape": [5, 4],
        "dtype": "bfloat16",
        "into": ["lm_head.weight"],
    }
    assert {"name": "qkv.weight", "shape": [6, 4]} in fact["parameters"]
    assert fact["unwritten"] == ["scale", "embed.weight"]
    assert fact["partly"] == []
    torch.testing.assert_close(model.qkv.weight.data[2:4], weights["k"])
    vocab = facts.only("draft_vocab")
    assert vocab["draft_vocab_size"] == 5
    assert vocab["hot_token_id"] == {"size": 5, "min": 0, "max": 7, "distinct": 5}


def test_renamed_tensors_are_dropped(facts: Any, probe: Any) -> None:
    weights = {"layers.q": torch.randn(2, 4), "norm.weight": torch.ones(4)}
    into, fact, _ = load(facts, probe, by_name, weights.items())
    assert into == {"layers.q": [], "norm.weight": ["norm.weight"]}
    assert "qkv.weight" in fact["unwritten"]
    assert facts.only("draft_vocab")["hot_token_id"] is None


def test_missing_part_of_a_fused_parameter_shows(facts: Any, probe: Any) -> None:
    weights = {"q": torch.randn(2, 4), "v": torch.randn(2, 4)}
    _, fact, _ = load(facts, probe, by_name, weights.items())
    assert fact["partly"] == ["qkv.weight"]
    assert "qkv.weight" not in fact["unwritten"]


def test_tensors_kept_until_their_partner_comes(facts: Any, probe: Any) -> None:
    def fuse_late(model: Drafter, weights: Weights) -> None:
        kept = {}
        for name, tensor in weights:
            kept[name] = tensor.to(torch.float32)
            if {"q", "kv"} <= kept.keys():
                model.qkv.weight.data.copy_(torch.cat([kept.pop("q"), kept.pop("kv")]))

    weights = {
        "kv": torch.randn(4, 4, dtype=torch.float16),
        "x": torch.ones(1),
        "q": torch.ones(2, 4),
    }
    into, _, _ = load(facts, probe, fuse_late, weights.items())
    assert into == {"kv": ["qkv.weight"], "x": [], "q": ["qkv.weight"]}


def test_partner_that_never_comes_leaves_both_out(facts: Any, probe: Any) -> None:
    def wait(_: Drafter, weights: Weights) -> None:
        assert len(dict(weights)) == 1

    into, fact, _ = load(facts, probe, wait, [("kv", torch.randn(4, 4))])
    assert into == {"kv": []}
    assert "qkv.weight" in fact["unwritten"]


def _copy_under_no_grad(model: Drafter, tensor: torch.Tensor) -> None:
    with torch.no_grad():
        model.norm.weight.copy_(tensor)


def _assign_data(model: Drafter, tensor: torch.Tensor) -> None:
    model.norm.weight.data = tensor


def _assign_parameter(model: Drafter, tensor: torch.Tensor) -> None:
    model.norm.weight = nn.Parameter(tensor.clone())


def _element_by_element(model: Drafter, tensor: torch.Tensor) -> None:
    for at, value in enumerate(tensor):
        model.norm.weight.data[at] = value


def _out_argument(model: Drafter, tensor: torch.Tensor) -> None:
    torch.mul(tensor, 1.0, out=model.norm.weight.data)


def _swapped(model: Drafter, tensor: torch.Tensor) -> None:
    model.norm.weight.data.view(2, 2).t().copy_(tensor.view(2, 2))


@pytest.mark.parametrize(
    "write",
    [
        _copy_under_no_grad,
        _assign_data,
        _assign_parameter,
        _element_by_element,
        _out_argument,
        _swapped,
    ],
)
def test_every_way_of_writing_is_seen(
    facts: Any, probe: Any, write: Callable[[Drafter, torch.Tensor], None]
) -> None:
    def loader(model: Drafter, weights: Weights) -> None:
        for _, tensor in weights:
            write(model, tensor)

    into, fact, _ = load(facts, probe, loader, [("n", torch.ones(4))])
    assert into == {"n": ["norm.weight"]}
    assert "norm.weight" not in fact["unwritten"] + fact["partly"]


def test_scalar_that_goes_through_a_number(facts: Any, probe: Any) -> None:
    def loader(model: Drafter, weights: Weights) -> None:
        for _, tensor in weights:
            model.scale.data.fill_(tensor.item())

    into, fact, _ = load(facts, probe, loader, [("s", torch.ones(1))])
    assert into == {"s": ["scale"]}
    assert "scale" not in fact["unwritten"]


def test_initialisation_by_the_loader_itself_is_no_write(facts: Any, probe: Any) -> None:
    def loader(model: Drafter, weights: Weights) -> None:
        by_name(model, weights)
        model.scale.data.fill_(1.0)

    into, fact, _ = load(facts, probe, loader, [("norm.weight", torch.ones(4))])
    assert "scale" in fact["unwritten"]
    assert into == {"norm.weight": ["norm.weight"]}


def test_reused_memory_does_not_carry_old_names(facts: Any, probe: Any) -> None:
    memory = torch.zeros(4)

    def weights() -> Iterator[tuple[str, torch.Tensor]]:
        yield "dropped", memory
        yield "norm.weight", memory.fill_(1.0)

    into, _, _ = load(facts, probe, by_name, weights())
    assert into == {"dropped": [], "norm.weight": ["norm.weight"]}


def test_result_and_errors_of_the_loader_pass(facts: Any, probe: Any) -> None:
    watch = probe.load.LoadWatch(facts.recorder)
    assert watch.load_weights(lambda _, weights: len(list(weights)), Drafter(), weights=[]) == 0
    with pytest.raises(AssertionError, match="Attempted to load"):
        watch.load_weights(_refuse, Drafter(), [("q", torch.ones(1))])


def _refuse(_: Drafter, weights: Weights) -> None:
    raise AssertionError(f"Attempted to load {len(list(weights))}")


def test_error_while_watching_leaves_the_load_alone(
    facts: Any, probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe.dataflow, "_span", lambda _: 1 / 0)
    model = Drafter()
    watch = probe.load.LoadWatch(facts.recorder)
    watch.load_weights(by_name, model, [("norm.weight", torch.full((4,), 2.0))])
    assert model.norm.weight.tolist() == [2.0] * 4
    assert facts.of("error")


def test_parameters_shared_by_the_target_are_named(facts: Any, probe: Any) -> None:
    def set_embed_and_head(model: Drafter, embed: nn.Parameter, head: nn.Parameter) -> None:
        del model.embed.weight
        model.embed.weight = embed
        model.lm_head.weight = head

    target = Drafter()
    hook = probe.load.LoadWatch(facts.recorder).shared("set_embed_and_head")
    hook(set_embed_and_head, Drafter(), target.embed.weight, target.lm_head.weight)
    fact = facts.only("shared")
    assert sorted(fact["parameters"]) == ["embed.weight", "lm_head.weight"]
    assert (fact["class"], fact["method"]) == ("Drafter", "set_embed_and_head")


def test_embedding_that_cannot_be_shared(facts: Any, probe: Any) -> None:
    probe.load.LoadWatch(facts.recorder).shared("set_embed")(lambda _, __: None, Drafter(), None)
    assert facts.only("shared")["parameters"] == []
