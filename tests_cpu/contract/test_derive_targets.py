"""How the capture rule of a target class is read from its source."""

from __future__ import annotations

import textwrap

import pytest

from eagle3_checks.contract.derive.release import RefusedError
from eagle3_checks.contract.derive.source import ClassName
from eagle3_checks.contract.derive.targets import target_rule, target_rules
from tests_cpu.contract.miniature import MODELS, miniature

DEFAULT = "[2, num_layers // 2, num_layers - 3]"


def setter(*body: str) -> str:
    """Return a model file whose class Other sets layers so, and whose model goes by ids."""
    lines = textwrap.indent("\n".join(body), " " * 8)
    return f"""
class OtherModel(nn.Module):
    def forward(self):
        for i, layer in enumerate(self.layers):
            if i in self.layers_to_capture:
                aux_hidden_states.append(hidden_states)

class Other(nn.Module):
    def __init__(self, config):
        self.model = OtherModel(config)

    def set_eagle3_layers_to_capture(self, layer_ids=None):
        self.capture_aux_hidden_states = True
        num_layers = self.config.text_config.num_hidden_layers
{lines}

EntryClass = Other
"""


def branches(stated: str) -> str:
    return setter(
        "if layer_ids is None:",
        f"    self.model.layers_to_capture = {DEFAULT}",
        "else:",
        f"    self.model.layers_to_capture = {stated}",
    )


def rule(text: str, name: str = "Other") -> str:
    return target_rules(miniature(other=text))[name]


def test_the_miniature() -> None:
    assert target_rules(miniature()) == {"LlamaForCausalLM": "next", "Phi3ForCausalLM": "next"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (branches("[val + 1 for val in layer_ids]"), "next"),
        (
            setter(
                "if layer_ids is None:",
                f"    self.model.layers_to_capture = {DEFAULT}",
                "elif layer_ids and layer_ids[0] == 1:",
                "    self.model.layers_to_capture = [val + 1 for val in layer_ids]",
                "else:",
                "    self.model.layers_to_capture = list(layer_ids)",
            ),
            "first-1",
        ),
        (
            setter(
                "if layer_ids is None:",
                f"    self.model.layers_to_capture = {DEFAULT}",
                "elif layer_ids and max(layer_ids) == num_layers:",
                "    self.model.layers_to_capture = list(layer_ids)",
                "else:",
                "    self.model.layers_to_capture = [val + 1 for val in layer_ids]",
            ),
            "max-depth",
        ),
        (
            setter(
                "if layer_ids is None:",
                f"    layer_ids = {DEFAULT}",
                "self.model.layers_to_capture = [val + 1 for val in layer_ids]",
            ),
            "next default+1",
        ),
        (setter(f"self.model.layers_to_capture = {DEFAULT}"), "fixed"),
    ],
)
def test_shifts(text: str, words: str) -> None:
    assert rule(text) == words


MARKS = """
class Inner(nn.Module):
    def forward(self):
        for i in range(self.start_layer, self.end_layer):
            if getattr(layer, "_is_layer_to_capture", False):
                aux_hidden_states.append(hidden_states)

    def set_eagle3_layers_to_capture(self, layers_to_capture):
        self.layers_to_capture = layers_to_capture
        for layer_id in self.layers_to_capture:
            {mark}

class Other(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = None
        self.model = Inner(config)

    def set_eagle3_layers_to_capture(self, layer_ids=None):
        num_layers = len(self.model.layers)
        if layer_ids is None:
            layers = [2, num_layers // 2, num_layers - 3]
        else:
            layers = [val + 1 for val in layer_ids]
        if hasattr(self.model, "{asked}"):
            self.model.set_eagle3_layers_to_capture(layers)
        else:
            self.model.layers_to_capture = layers

EntryClass = [Other]
"""
MARK = 'setattr(self.layers[layer_id], "_is_layer_to_capture", True)'
GUARDED = f"if 0 <= layer_id < len(self.layers): {MARK}"
OWN = "set_eagle3_layers_to_capture"


@pytest.mark.parametrize(
    ("mark", "asked", "words"),
    [
        (MARK, OWN, "next marks strict"),
        (GUARDED, OWN, "next marks"),
        (MARK, "something_else", "next nothing"),
    ],
)
def test_marked_layers(mark: str, asked: str, words: str) -> None:
    assert rule(MARKS.format(mark=mark, asked=asked)) == words


READING = """
class Inner(nn.Module):
    def forward(self):
        {before}
        for i in range(self.start_layer, self.end_layer):
            self.step(captured if i in self.layers_to_capture else None)
        {after}

    def step(self, place):
        pass

class Other(LlamaForCausalLM):
    def _init_model(self, config):
        return Inner(config)

from sglang.srt.models.llama import LlamaForCausalLM
EntryClass = [Other]
"""


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("", "", "next"),
        ("", "if self.end_layer in self.layers_to_capture: pass", "next last"),
        ("", "if num_layers in self.layers_to_capture: pass", "next last"),
        ("aux = AuxHiddenStatePacker(len(self.layers_to_capture))", "", "next packed"),
    ],
)
def test_what_the_forward_pass_captures(before: str, after: str, words: str) -> None:
    assert rule(READING.format(before=before or "pass", after=after or "pass")) == words


def test_a_forward_pass_that_hands_on_to_its_base() -> None:
    text = """
    from sglang.srt.models.llama import LlamaForCausalLM, LlamaModel

    class Scaled(LlamaModel):
        def forward(self, input_ids):
            return super().forward(input_ids) * 2

    class Other(LlamaForCausalLM):
        def _init_model(self, config):
            return Scaled(config)

    EntryClass = [Other]
    """
    assert rule(text) == "next"


WRAPPERS = {
    "keyword": (
        "language_model_cls=LlamaModel",
        "super().__init__(config, language_model_cls=Own)",
    ),
    "position": ("language_model_cls=LlamaModel", "super().__init__(config, Own)"),
}


@pytest.mark.parametrize("form", WRAPPERS)
def test_a_part_whose_class_the_subclass_hands_over(form: str) -> None:
    parameter, call = WRAPPERS[form]
    text = f"""
from sglang.srt.models.llama import LlamaModel

class Own(nn.Module):
    def forward(self):
        pass

class Base(nn.Module):
    def __init__(self, config, {parameter}):
        self.model = language_model_cls(config)

    def set_eagle3_layers_to_capture(self, layer_ids=None):
        self.model.layers_to_capture = [2, 12, 21]
        if layer_ids is None:
            n = self.config.num_hidden_layers
            self.model.layers_to_capture = [2, n // 2, n - 3]
        else:
            self.model.layers_to_capture = [i + 1 for i in layer_ids]

class Other(Base):
    def __init__(self, config):
        {call}

EntryClass = [Base, Other]
"""
    assert (rule(text, "Base"), rule(text)) == ("next", "next nothing")


def test_a_wrapper_that_hands_on() -> None:
    text = """
    class Other(nn.Module):
        def __init__(self, config):
            from sglang.srt.models.llama import LlamaForCausalLM
            self.language_model = LlamaForCausalLM(config.text_config)

        def set_eagle3_layers_to_capture(self, layer_ids=None):
            if self.language_model is None or not hasattr(
                self.language_model, "set_eagle3_layers_to_capture"
            ):
                raise AttributeError("no")
            self.language_model.set_eagle3_layers_to_capture(layer_ids)

    EntryClass = [Other]
    """
    assert rule(text) == "next"


def test_a_class_attribute_of_another_module() -> None:
    text = """
    from sglang.srt.models import llama

    class Other(nn.Module):
        body_cls = llama.LlamaModel

        def __init__(self, config):
            self.model = self.body_cls(config)

        set_eagle3_layers_to_capture = None

        def set_eagle3_layers_to_capture(self, layer_ids=None):
            n = self.config.num_hidden_layers
            if layer_ids is None:
                self.model.layers_to_capture = [2, n // 2, n - 3]
            else:
                self.model.layers_to_capture = [val + 1 for val in layer_ids]

    EntryClass = [Other]
    """
    assert rule(text) == "next"


def test_a_class_without_a_setter_cannot() -> None:
    assert rule("class Other(nn.Module): pass\nEntryClass = [Other]") == "none"


def test_drafters_are_no_targets() -> None:
    text = "class OtherForCausalLMNextN: pass\nEntryClass = [OtherForCausalLMNextN]"
    assert "OtherForCausalLMNextN" not in target_rules(miniature(other=text))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (branches("[val + 2 for val in layer_ids]"), "shifts ids by no known rule"),
        (branches("sorted(layer_ids)"), "is not understood, Other.set_eagle3"),
        (branches("self.config.layers"), "is not understood"),
        (
            setter("self.model.layers_to_capture = [1, 2, 3]"),
            "shifts ids by no known rule",
        ),
        (
            branches("[val + 1 for val in layer_ids]").replace("OtherModel(config)", "Unknown()"),
            "is of no clear class",
        ),
        (
            branches("[val + 1 for val in layer_ids]").replace(
                "i in self.layers_to_capture", "i - 1 in self.layers_to_capture"
            ),
            "i - 1 in self.layers_to_capture is no boundary that is known",
        ),
        (
            branches("[val + 1 for val in layer_ids]").replace("def forward", "def backward"),
            "has no forward",
        ),
        ("class Other: pass\nEntryClass = [Other] + []", "EntryClass is no list of names"),
        ("EntryClass = [Nobody]", "which is not found"),
    ],
)
def test_what_is_refused(text: str, says: str) -> None:
    with pytest.raises(RefusedError, match=says):
        rule(text)


def test_two_constructors_that_disagree_are_refused() -> None:
    text = branches("[val + 1 for val in layer_ids]").replace(
        "self.model = OtherModel(config)",
        "self.model = OtherModel(config)\n        self.model = Other(config)",
    )
    with pytest.raises(RefusedError, match=r"self\.model may be OtherModel .* or Other"):
        rule(text)


def test_a_class_may_extend_the_import_of_its_own_name() -> None:
    text = """
    from sglang.srt.models.llama import LlamaForCausalLM

    class LlamaForCausalLM(LlamaForCausalLM):
        pass

    class Other(LlamaForCausalLM):
        pass
    """
    found = target_rule(miniature(other=text), ClassName(f"{MODELS}/other.py", "Other"))
    assert found == "next"
