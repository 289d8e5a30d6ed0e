from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.checkpoint.tokenizer import MAX_HEAD_BYTES, read_tokenizer


def write(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_a_folder_without_tokenizer_files(tmp_path: Path) -> None:
    assert read_tokenizer(write(tmp_path, config__json={"eos_token_id": 1})) is None


def test_everything_is_gathered(tmp_path: Path) -> None:
    seen = read_tokenizer(
        write(
            tmp_path,
            tokenizer__json={"added_tokens": [{"id": 7, "content": "<|end|>"}], "model": {}},
            tokenizer_config__json={
                "added_tokens_decoder": {"3": {"content": "</s>"}, "x": {"content": "?"}},
                "eos_token": {"content": "</s>"},
                "chat_template": [{"name": "default", "template": "a<|end|>"}],
            },
            chat_template__jinja="{% if x %}",
            generation_config__json={"eos_token_id": [7, 9]},
            config__json={"text_config": {"eos_token_id": 0}},
        )
    )
    assert seen is not None
    assert dict(seen.special) == {3: "</s>", 7: "<|end|>"}
    assert seen.ends == (7, 9, 0, 3)
    assert seen.template == "{% if x %}\na<|end|>"
    assert seen.files == ("tokenizer_config.json", "tokenizer.json", "chat_template.jinja")


def test_only_the_start_of_a_tokenizer_is_read(tmp_path: Path) -> None:
    late = json.dumps({"model": "x" * MAX_HEAD_BYTES, "added_tokens": [{"id": 1, "content": "a"}]})
    cut = '{"added_tokens": [{"id": 1, "content": "' + "x" * MAX_HEAD_BYTES
    for text in (late, cut):
        seen = read_tokenizer(write(tmp_path, tokenizer__json=text))
        assert seen is not None
        assert dict(seen.special) == {}


@given(
    content=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["added_tokens_decoder", "content", "id", "7", "eos_token", "x"])
                | st.text(max_size=3),
                inner,
                max_size=3,
            )
        ),
        max_leaves=12,
    )
)
def test_any_content_is_read(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    folder = tmp_path_factory.mktemp("x")
    names = ("tokenizer__json", "tokenizer_config__json", "special_tokens_map__json")
    table = {"added_tokens": content, "chat_template": content, "eos_token_id": content}
    write(folder, **dict.fromkeys(names, content))
    write(folder, generation_config__json=table, config__json=table)
    seen = read_tokenizer(folder)
    assert seen is not None
    assert all(isinstance(i, int) for i in (*seen.special, *seen.ends))
