"""What rules say of RoPE, fields and context, against the installed transformers and SGLang."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.contract import contract_for
from eagle3_checks.profile import Server
from eagle3_checks.rules.context import context_length
from eagle3_checks.rules.fields import _NEVER_NULL
from eagle3_checks.rules.pins import one_rope_dict, strict_types, transformers
from eagle3_checks.rules.rope_values import effective
from eagle3_checks.rules.serving import context_flag, context_override, flag

NEWEST = contract_for("0.5.23")
SCALINGS = st.none() | st.sampled_from(
    [
        {},
        {"rope_type": "default"},
        {"rope_type": "default", "rope_theta": 5e5},
        {"type": "linear", "factor": 2.0},
        {"rope_type": "yarn", "factor": 4.0},
        {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "rope_theta": 1e6},
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 512,
        },
    ]
)
CONFIGS = st.fixed_dictionaries(
    {"max_position_embeddings": st.sampled_from([512, 4096])},
    optional={
        "rope_theta": st.sampled_from([10000.0, 5e4]),
        "rope_scaling": SCALINGS,
        "rope_parameters": SCALINGS,
    },
)


@pytest.fixture(scope="module")
def llama() -> Any:
    return pytest.importorskip("transformers").LlamaConfig


@given(config=CONFIGS)
def test_the_rope_is_the_one_transformers_builds(llama: Any, config: dict[str, Any]) -> None:
    built = llama(**{k: dict(v) if isinstance(v, dict) else v for k, v in config.items()})
    seen = effective(config, NEWEST)
    assert seen.theta == built.rope_parameters["rope_theta"]
    assert seen.kind == built.rope_parameters["rope_type"]
    for key in ("factor", "original_max_position_embeddings"):
        assert seen.values.get(key) == built.rope_parameters.get(key)


@given(config=CONFIGS)
def test_the_context_is_the_one_sglang_derives(llama: Any, config: dict[str, Any]) -> None:
    built = llama(**{k: dict(v) if isinstance(v, dict) else v for k, v in config.items()})
    stand_in = SimpleNamespace(
        max_position_embeddings=built.max_position_embeddings, rope_scaling=built.rope_parameters
    )
    assert context_length(config, NEWEST) == sglang_function("get_context_length")(stand_in)


def sglang_function(name: str) -> Any:
    """Return one function of SGLang's, without importing the rest of its module."""
    spec = importlib.util.find_spec("sglang")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("sglang is not installed")
    folder = Path(spec.submodule_search_locations[0])
    source = (folder / "srt/utils/hf_transformers/common.py").read_text()
    wanted: list[ast.stmt] = [
        node
        for node in ast.parse(source).body
        if (isinstance(node, ast.FunctionDef) and node.name == name)
        or (isinstance(node, ast.Assign) and "CONTEXT_LENGTH_KEYS" in ast.unparse(node.targets[0]))
    ]
    found: dict[str, Any] = {}
    exec(compile(ast.Module(wanted, []), "sglang", "exec"), found)  # noqa: S102 - SGLang's own
    return found[name]


def test_fields_that_may_not_be_null_are_declared_so(llama: Any) -> None:
    declared = {f.name: f.type for f in dataclasses.fields(llama)}
    assert {key: declared[key] for key in _NEVER_NULL} == dict(_NEVER_NULL)


def test_the_pinned_transformers_decides() -> None:
    assert [one_rope_dict(contract_for(v)) for v in ("0.5.9", "0.5.10")] == [False, True]
    assert [strict_types(contract_for(v)) for v in ("0.5.10", "0.5.11")] == [False, True]
    assert transformers(NEWEST) == "transformers 5.19.0"


@pytest.mark.parametrize(
    ("args", "value"),
    [
        (("--context-length", "4096"), 4096),
        (("--context-length=4096",), 4096),
        (("--context-length", "1", "--context-length", "2"), 2),
        (("--context-length",), None),
        (("--context-length", "auto"), None),
        (("--max-total-tokens", "4096"), None),
    ],
)
def test_the_context_flag(args: tuple[str, ...], value: int | None) -> None:
    assert context_flag(Server(args=args)) == value


def test_flags_of_no_profile_are_unknown() -> None:
    assert flag(None, "--dtype") is None
    assert context_override(None) is None
    assert context_override(Server(env={"SGLANG_IS_IN_CI": "yes"})) is None
