"""What the probe says about the drafter's forward pass and the target's capture."""

from __future__ import annotations

from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn


class Mode(IntEnum):
    EXTEND = 1
    DECODE = 2
    DRAFT_EXTEND_V2 = 6


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(8, 4)
        self.fc = nn.Linear(12, 4)


class Drafter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = Inner()


def forward(model: Drafter, input_ids: torch.Tensor, forward_batch: Any) -> Any:
    """Skip the fusion layer in silence, as SGLang does, where the width is the embedding's."""
    hidden = forward_batch.spec_info.hidden_states
    embeds = model.model.embed_tokens(input_ids)
    return hidden if hidden.shape[-1] == embeds.shape[-1] else model.model.fc(hidden)


def batch(mode: Mode, width: int) -> Any:
    spec_info = SimpleNamespace(hidden_states=torch.zeros(2, width))
    return SimpleNamespace(forward_mode=mode, spec_info=spec_info)


def test_one_line_per_mode_and_width(facts: Any, probe: Any) -> None:
    watch, model = probe.forward.ForwardWatch(facts.recorder), Drafter()
    ids = torch.zeros(2, dtype=torch.int64)
    for mode, width in [(Mode.EXTEND, 12), (Mode.DECODE, 4), (Mode.DRAFT_EXTEND_V2, 12)] * 3:
        result = watch.forward(forward, model, ids, forward_batch=batch(mode, width))
        assert result.shape == (2, 4)
    common = {"class": "Drafter", "embed_width": 4, "capturing": False}
    ran = {"fc_ran": True, "fc_in": 12, "fc_out": 4, "width": 12}
    skipped = {"fc_ran": False, "fc_in": None, "fc_out": None, "width": 4}
    seen = [
        {key: value for key, value in line.items() if key not in {"v", "pid", "rank", "fact"}}
        for line in facts.of("forward")
    ]
    assert seen == [
        common | ran | {"mode": "EXTEND", "mode_value": 1},
        common | skipped | {"mode": "DECODE", "mode_value": 2},
        common | ran | {"mode": "DRAFT_EXTEND_V2", "mode_value": 6},
    ]
    assert not facts.of("error")


def test_skipped_fusion_layer_in_a_prompt_shows(facts: Any, probe: Any) -> None:
    watch = probe.forward.ForwardWatch(facts.recorder)
    watch.forward(forward, Drafter(), torch.zeros(2, dtype=torch.int64), batch(Mode.EXTEND, 4))
    line = facts.only("forward")
    assert (line["mode"], line["width"], line["fc_ran"]) == ("EXTEND", 4, False)


def test_fusion_layer_that_returns_a_tuple(facts: Any, probe: Any) -> None:
    class Parallel(nn.Linear):
        def forward(self, value: torch.Tensor) -> Any:
            return super().forward(value), None

    model = Drafter()
    model.model.fc = Parallel(12, 4)
    probe.forward.ForwardWatch(facts.recorder).forward(
        forward, model, torch.zeros(2, dtype=torch.int64), batch(Mode.EXTEND, 12)
    )
    assert facts.only("forward")["fc_out"] == 4


def test_batch_without_hidden_states(facts: Any, probe: Any) -> None:
    watch = probe.forward.ForwardWatch(facts.recorder)
    idle = SimpleNamespace(forward_mode=Mode.DECODE, spec_info=None)
    watch.forward(lambda *_: "out", Drafter(), None, idle)
    assert facts.only("forward")["width"] is None


def test_capture_of_a_cuda_graph_is_said(
    facts: Any, probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    watch = probe.forward.ForwardWatch(facts.recorder)
    watch.forward(lambda *_: None, Drafter(), None, batch(Mode.EXTEND, 12))
    assert facts.only("forward")["capturing"] is True


def test_nothing_is_watched_while_torch_compiles(
    facts: Any, probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    watch = probe.forward.ForwardWatch(facts.recorder)
    assert watch.forward(lambda *_: "out", Drafter(), None, batch(Mode.EXTEND, 12)) == "out"
    assert facts.lines() == []


def test_errors_of_the_model_pass_and_those_of_the_probe_do_not(facts: Any, probe: Any) -> None:
    watch = probe.forward.ForwardWatch(facts.recorder)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        watch.forward(forward, Drafter(), torch.zeros(2, dtype=torch.int64), batch(Mode.EXTEND, 8))
    assert watch.forward(lambda *_: "out", nn.Identity(), batch(Mode.EXTEND, 4)) == "out"
    assert facts.of("error")


class Target(nn.Module):
    def __init__(self, layers_to_capture: list[int] | None) -> None:
        super().__init__()
        self.model = nn.Module()
        if layers_to_capture is not None:
            self.model.layers_to_capture = layers_to_capture  # type: ignore[assignment]


def set_layers(model: Target, layer_ids: list[int] | None = None) -> None:
    ids = [2, 4, 5] if layer_ids is None else [layer + 1 for layer in layer_ids]
    model.model.layers_to_capture = ids  # type: ignore[assignment]


@pytest.mark.parametrize(("requested", "layers"), [(None, [2, 4, 5]), ([1, 29, 57], [2, 30, 58])])
def test_captured_layers(
    facts: Any, probe: Any, requested: list[int] | None, layers: list[int]
) -> None:
    probe.capture.CaptureWatch(facts.recorder).set_layers(set_layers, Target([]), requested)
    fact = facts.only("capture")
    assert (fact["class"], fact["layers"], fact["requested"]) == ("Target", layers, requested)


def test_model_inside_a_model_is_reported_once(facts: Any, probe: Any) -> None:
    class Multimodal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.language_model = Target([])

    watch = probe.capture.CaptureWatch(facts.recorder)

    def hand_on(model: Any, layer_ids: list[int]) -> None:
        watch.set_layers(set_layers, model.language_model, layer_ids)

    watch.set_layers(hand_on, Multimodal(), layer_ids=[1, 3, 4])
    fact = facts.only("capture")
    assert (fact["class"], fact["layers"], fact["requested"]) == (
        "Multimodal",
        [2, 4, 5],
        [1, 3, 4],
    )


@pytest.mark.parametrize(("kept", "layers"), [([], []), (None, None)])
def test_layers_that_are_not_found(
    facts: Any, probe: Any, kept: list[int] | None, layers: list[int] | None
) -> None:
    probe.capture.CaptureWatch(facts.recorder).set_layers(lambda *_: None, Target(kept), None)
    assert facts.only("capture")["layers"] == layers
