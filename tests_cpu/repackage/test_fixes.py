"""What can be fixed with certainty is, and what would be a guess is refused."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from eagle3_checks.checkpoint import read_d2t, read_manifest
from eagle3_checks.repackage.run import Outcome
from tests_cpu.repackage.conftest import Rebuild

Broken = Callable[..., Path]


def errors(findings: Any) -> set[str]:
    return {f.code for f in findings if f.is_error}


def config(tmp_path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((tmp_path / "out" / "config.json").read_text())
    return loaded


def refusal(outcome: Outcome) -> str:
    """Return why it was refused, and hold that nothing was written."""
    assert not outcome.written
    assert not outcome.good
    return "; ".join(r.why for r in outcome.refusals)


@pytest.mark.parametrize(
    ("layer", "version"),
    [
        ("layers.0", "0.5.9"),
        ("midlayer.0", "0.5.23"),
        ("decoder", "0.5.23"),
        ("draft_model.midlayer", "0.5.23"),
    ],
)
def test_the_decoder_layer_gets_a_name_that_is_read(
    broken: Broken, rebuild: Rebuild, tmp_path: Path, layer: str, version: str
) -> None:
    outcome = rebuild(broken(layer=layer), version)
    assert errors(outcome.before)
    assert outcome.good
    names = set(read_manifest(tmp_path / "out").tensors)
    assert "midlayer.self_attn.q_proj.weight" in names
    assert not any(name.startswith(layer) for name in names)


def test_names_at_which_an_old_version_stops(
    broken: Broken, rebuild: Rebuild, tmp_path: Path
) -> None:
    bias = {"fc.bias": ("BF16", (16,), None)}  # which that version builds in any case
    assert rebuild(broken(layer="layers.0", tensors=bias), "0.4.7").good


def test_a_prefix_of_all_names_is_taken_off(
    broken: Broken, rebuild: Rebuild, tmp_path: Path
) -> None:
    outcome = rebuild(broken(rename=lambda name: f"draft_model.{name}"))
    assert outcome.good
    assert "fc.weight" in read_manifest(tmp_path / "out").tensors


def test_names_that_are_read_are_left_alone(
    broken: Broken, rebuild: Rebuild, tmp_path: Path
) -> None:
    outcome = rebuild(broken(layer="layers.0"))
    assert (outcome.changes, outcome.good) == ((), True)
    assert "layers.0.mlp.up_proj.weight" in read_manifest(tmp_path / "out").tensors


def test_two_layers_are_no_one_layer(
    broken: Broken, rebuild: Rebuild, healthy_tensors: Callable[..., dict[str, Any]]
) -> None:
    second = {k: v for k, v in healthy_tensors("draft.block").items() if "block" in k}
    outcome = rebuild(broken(layer="decoder", tensors=second))
    assert "both decoder.* and draft.block.* look like the one decoder layer" in refusal(outcome)


def test_a_later_layer_is_never_called_the_first(broken: Broken, rebuild: Rebuild) -> None:
    outcome = rebuild(broken(layer="layers.61"), "0.5.9")
    assert not outcome.written
    assert outcome.changes == ()


def test_two_tensors_for_one_name(broken: Broken, rebuild: Rebuild) -> None:
    spec = ("BF16", (16,), None)
    tensors = {"norm.weight": ..., "a.norm.weight": spec, "b.norm.weight": spec}
    assert "a.norm.weight and b.norm.weight could both be it" in refusal(
        rebuild(broken(tensors=tensors))
    )


def test_biases_that_no_version_reads_are_not_fixed(
    broken: Broken, rebuild: Rebuild, tmp_path: Path
) -> None:
    bias = {"layers.0.self_attn.q_proj.bias": ("BF16", (16,), None)}
    outcome = rebuild(broken(layer="layers.0", tensors=bias), "0.5.9")
    assert outcome.written
    assert not outcome.good
    assert errors(outcome.after) == {"KEY001"}


@pytest.mark.parametrize(
    "names",
    [
        ["Eagle3Speculator"],
        ["Eagle3LlamaForCausalLM"],
        ["LlamaForCausalLM"],
        ["LlamaForCausalLM", "LlamaForCausalLMEagle3"],
    ],
)
def test_the_architecture_of_a_trainer(
    broken: Broken, rebuild: Rebuild, tmp_path: Path, names: list[str]
) -> None:
    assert rebuild(broken({"architectures": names})).good
    assert config(tmp_path)["architectures"] == ["LlamaForCausalLMEagle3"]


def test_an_architecture_that_the_tensors_contradict(broken: Broken, rebuild: Rebuild) -> None:
    drafter = broken({"architectures": ["LlamaForCausalLM"]}, {"fc.weight": ...})
    assert "nothing in the file fills its model.fc.weight" in refusal(rebuild(drafter))


def test_an_architecture_that_is_not_known_to_be_the_same(
    broken: Broken, rebuild: Rebuild, tmp_path: Path
) -> None:
    outcome = rebuild(broken({"architectures": ["Gemma3ForCausalLMEagle3"]}))
    assert not outcome.written
    assert not (tmp_path / "out").exists()


def speculators(healthy: dict[str, Any], **top: Any) -> dict[str, Any]:
    """Return changes that turn the healthy config into one of speculators."""
    kept = ("architectures", "draft_vocab_size", "tie_word_embeddings")
    inner = {k: v for k, v in healthy.items() if k not in kept}
    return {
        **dict.fromkeys(inner, ...),
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "target_hidden_size": None,
        "transformer_layer_config": {**inner, "architectures": ["LlamaForCausalLM"]},
        **top,
    }


def test_speculators_sizes_come_to_the_top(
    broken: Broken, rebuild: Rebuild, tmp_path: Path, healthy_config: Callable[..., dict[str, Any]]
) -> None:
    outcome = rebuild(broken(speculators(healthy_config("draft")), layer="layers.0"), "0.5.9")
    assert outcome.good
    new = config(tmp_path)
    assert new["hidden_size"] == 16
    assert new["architectures"] == ["LlamaForCausalLMEagle3"]
    assert "transformer_layer_config" not in new
    assert "target_hidden_size" not in new
    assert new["from_speculators"] == {"speculators_model_type": "eagle3"}


def test_sizes_that_contradict_each_other(
    broken: Broken, rebuild: Rebuild, healthy_config: Callable[..., dict[str, Any]]
) -> None:
    changes = speculators(healthy_config("draft"), hidden_size=32)
    assert "it is 32 at the top and 16 in transformer_layer_config" in refusal(
        rebuild(broken(changes))
    )


def test_a_null_target_width_is_read_from_fc(
    broken: Broken, rebuild: Rebuild, tmp_path: Path
) -> None:
    wide = {"fc.weight": ("BF16", (16, 72), None), "embed_tokens.weight": ("BF16", (128, 16), None)}
    outcome = rebuild(broken({"target_hidden_size": None}, wide))
    assert outcome.good
    assert config(tmp_path)["target_hidden_size"] == 24


def test_a_null_target_width_that_fc_does_not_tell(broken: Broken, rebuild: Rebuild) -> None:
    odd = {"fc.weight": ("BF16", (16, 47), None)}
    assert "does not tell" in refusal(rebuild(broken({"target_hidden_size": None}, odd)))


def test_a_missing_draft_vocabulary(broken: Broken, rebuild: Rebuild, tmp_path: Path) -> None:
    assert rebuild(broken({"draft_vocab_size": ...})).good
    assert config(tmp_path)["draft_vocab_size"] == 64


def test_a_missing_draft_vocabulary_without_a_head(broken: Broken, rebuild: Rebuild) -> None:
    drafter = broken({"draft_vocab_size": ...}, {"lm_head.weight": ...})
    assert "so is lm_head.weight" in refusal(rebuild(drafter))


def test_a_reduced_head_is_untied(broken: Broken, rebuild: Rebuild, tmp_path: Path) -> None:
    assert rebuild(broken({"tie_word_embeddings": True})).good
    assert config(tmp_path)["tie_word_embeddings"] is False


def test_a_full_head_may_be_the_embedding(broken: Broken, rebuild: Rebuild) -> None:
    drafter = broken(
        {"tie_word_embeddings": True, "draft_vocab_size": 128},
        {"lm_head.weight": ("BF16", (128, 16), None), "d2t": ..., "t2d": ...},
    )
    assert "cannot be told" in refusal(rebuild(drafter))


def bf16(values: list[float]) -> bytes:
    return b"".join(struct.pack("<f", v)[2:] for v in values)


PACKED: dict[str, Callable[[list[float]], bytes]] = {
    "BF16": bf16,
    "F16": lambda values: struct.pack(f"<{len(values)}e", *values),
    "F32": lambda values: struct.pack(f"<{len(values)}f", *values),
    "F64": lambda values: struct.pack(f"<{len(values)}d", *values),
}


@pytest.mark.parametrize("dtype", PACKED)
def test_a_d2t_of_whole_numbers(
    broken: Broken, rebuild: Rebuild, tmp_path: Path, dtype: str
) -> None:
    spec = (dtype, (64,), PACKED[dtype]([3.0] * 64))
    outcome = rebuild(broken(tensors={"d2t": spec}))
    assert outcome.good, outcome
    assert read_d2t(tmp_path / "out", read_manifest(tmp_path / "out")) == (3,) * 64


@pytest.mark.parametrize(
    ("dtype", "value", "says"),
    [
        ("BF16", 256.0, "BF16 keeps whole numbers below 256 alone"),
        ("F16", 2048.0, "F16 keeps whole numbers below 2048 alone"),
        ("F32", 0.5, "numbers that are not whole"),
        ("F32", float("nan"), "numbers that are not whole"),
    ],
)
def test_a_d2t_that_was_rounded(
    broken: Broken, rebuild: Rebuild, dtype: str, value: float, says: str
) -> None:
    spec = (dtype, (64,), PACKED[dtype]([value] * 64))
    assert says in refusal(rebuild(broken(tensors={"d2t": spec})))


def test_a_quantised_drafter_keeps_its_names(broken: Broken, rebuild: Rebuild) -> None:
    drafter = broken({"quantization_config": {"quant_method": "fp8"}}, layer="layers.0")
    assert rebuild(drafter, "0.5.9").changes == ()


def test_damaged_files_are_refused(broken: Broken, rebuild: Rebuild) -> None:
    drafter = broken()
    whole = (drafter / "model.safetensors").read_bytes()
    (drafter / "model.safetensors").write_bytes(whole[:-4])
    assert refusal(rebuild(drafter)) == "the weights cannot be read"


def test_a_healthy_drafter_is_copied(broken: Broken, rebuild: Rebuild, tmp_path: Path) -> None:
    outcome = rebuild(broken())
    assert (outcome.changes, outcome.good) == ((), True)
    with safe_open(str(tmp_path / "out" / "model.safetensors"), framework="np") as file:
        record = json.loads(file.metadata()["eagle3_checks"])
    assert record["sglang"] == "0.5.23"
    assert config(tmp_path)["eagle3_checks"] == record
