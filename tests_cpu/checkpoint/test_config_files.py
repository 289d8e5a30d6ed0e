from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3_checks.checkpoint.config import read_draft_config, read_target_config
from eagle3_checks.facts import FileFault


def write(folder: Path, value: Any) -> Path:
    (folder / "config.json").write_text(value if isinstance(value, str) else json.dumps(value))
    return folder


def test_a_healthy_drafter(tmp_path: Path, healthy_config: Callable[..., dict[str, Any]]) -> None:
    ids = {"eagle_aux_hidden_state_layer_ids": [1, 3, 4], "use_aux_hidden_state": True}
    config = read_draft_config(write(tmp_path, healthy_config("draft", eagle_config=ids)))
    assert config.problems == ()
    assert config.architectures == ("LlamaForCausalLMEagle3",)
    assert config.aux_layer_ids == (1, 3, 4)
    assert config.use_aux_hidden_state is True
    assert config.aux_layer_ids_top_level is None
    assert config.raw["hidden_act"] == "silu"


def test_null_and_absent_are_both_none_but_raw_tells(tmp_path: Path) -> None:
    config = read_draft_config(write(tmp_path, {"draft_vocab_size": None}))
    assert config.draft_vocab_size is None
    assert "draft_vocab_size" in config.raw
    assert "hidden_size" not in config.raw
    assert config.problems == ()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("hidden_size", "128", "hidden_size is '128'; it must be a whole number"),
        ("hidden_size", 128.0, "hidden_size is 128.0; it must be a whole number"),
        ("num_hidden_layers", True, "num_hidden_layers is True; it must be a whole number"),
        ("tie_word_embeddings", "false", "it must be true or false"),
        ("architectures", "LlamaForCausalLMEagle3", "it must be a list of texts"),
        ("model_type", 3, "it must be a text"),
        ("eagle_config", [], "eagle_config is []; it must be an object"),
        (
            "eagle_config",
            {"eagle_aux_hidden_state_layer_ids": [1, "2"]},
            "eagle_config.eagle_aux_hidden_state_layer_ids is [1, '2']",
        ),
    ],
)
def test_a_field_of_another_type_is_told(
    tmp_path: Path, key: str, value: Any, says: str, healthy_config: Callable[..., dict[str, Any]]
) -> None:
    config = read_draft_config(write(tmp_path, healthy_config("draft", **{key: value})))
    assert [says in p.detail for p in config.problems] == [True]
    assert config.vocab_size == 128


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", FileFault.TRUNCATED),
        ("{", FileFault.NOT_JSON),
        ("[]", FileFault.NOT_JSON),
        ("[" * 100_000, FileFault.NOT_JSON),
        ('{"a": {"b": 1, "b": 2}}', FileFault.DUPLICATE),
        ("version https://git-lfs.github.com/spec/v1\n", FileFault.UNREADABLE),
    ],
)
def test_a_file_of_another_form(tmp_path: Path, text: str, fault: FileFault) -> None:
    for read in (read_draft_config, read_target_config):
        assert [p.fault for p in read(write(tmp_path, text)).problems] == [fault]


def test_a_missing_file(tmp_path: Path) -> None:
    problems = read_draft_config(tmp_path).problems
    assert [(p.fault, p.file) for p in problems] == [(FileFault.MISSING, "config.json")]


def test_a_file_too_long(tmp_path: Path) -> None:
    write(tmp_path, " " * 10_000_001)
    assert "10000001 bytes long" in read_target_config(tmp_path).problems[0].detail


@pytest.mark.parametrize("wrapper", ["text_config", "language_config", "llm_config"])
def test_wrappers_are_looked_through(
    tmp_path: Path, wrapper: str, healthy_config: Callable[..., dict[str, Any]]
) -> None:
    outer = {
        "architectures": ["KimiK25ForConditionalGeneration"],
        wrapper: healthy_config("target"),
    }
    target = read_target_config(write(tmp_path, outer))
    assert target.problems == ()
    assert target.architectures == ("KimiK25ForConditionalGeneration",)
    assert (target.hidden_size, target.num_hidden_layers) == (16, 8)


def test_a_wrapper_in_a_wrapper_names_its_field(tmp_path: Path) -> None:
    outer = {"thinker_config": {"text_config": {"hidden_size": "x"}}}
    target = read_target_config(write(tmp_path, outer))
    assert target.problems[0].detail.startswith("thinker_config.text_config.hidden_size is 'x'")


@pytest.mark.parametrize("which", ["draft", "target"])
@pytest.mark.parametrize("value", [[], "x", 3])
def test_a_wrapper_that_is_no_object(
    tmp_path: Path, which: str, value: Any, healthy_config: Callable[..., dict[str, Any]]
) -> None:
    read = read_draft_config if which == "draft" else read_target_config
    (fault,) = read(write(tmp_path, healthy_config(which, text_config=value))).problems
    assert fault.detail.startswith(f"text_config is {value!r}; it must be an object")
    assert read(write(tmp_path, healthy_config(which, text_config=None))).problems == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
KEYS = st.sampled_from(
    ["hidden_size", "architectures", "eagle_config", "text_config", "tie_word_embeddings"]
)


@settings(max_examples=150, deadline=None)
@given(value=st.dictionaries(KEYS, JSON))
def test_any_values_are_survived(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, Any]
) -> None:
    folder = write(tmp_path_factory.mktemp("config"), value)
    assert read_draft_config(folder).source == str(folder)
    assert read_target_config(folder).source == str(folder)


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=100))
def test_any_bytes_are_survived(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("config")
    (folder / "config.json").write_bytes(data)
    read_draft_config(folder)
    read_target_config(folder)
