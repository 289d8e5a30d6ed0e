from __future__ import annotations

import pytest

from eagle3_checks.contract.version import (
    Contract,
    ContractError,
    contract_for,
    first_version,
    known_versions,
)

ALL = known_versions()


def test_all_versions_are_there_in_order() -> None:
    assert len(ALL) == 57
    assert (ALL[0], ALL[-1]) == ("0.4.6.post5", "0.5.23")
    assert ALL.index("0.5.9") < ALL.index("0.5.10") < ALL.index("0.5.10.post1")


@pytest.mark.parametrize("version", ALL)
def test_a_known_version_is_itself(version: str) -> None:
    contract = contract_for(version)
    assert (contract.version, contract.approximates, contract.name) == (version, None, version)
    assert "LlamaForCausalLMEagle3" in contract.classes
    assert (contract.mla is not None) == ("Eagle3DeepseekV2ForCausalLM" in contract.classes)
    assert contract.targets["LlamaForCausalLM"] in {"fixed", "next"}
    assert len(contract.sha256) == 64
    assert "torch" in contract.requires


@pytest.mark.parametrize("version", ALL)
def test_reported_names_are_among_the_keys(version: str) -> None:
    contract = contract_for(version)
    meta = contract.meta
    names = (meta.verify, meta.correct, meta.proposed, meta.histogram, meta.accept_length)
    assert {name for name in names if name} <= set(contract.meta_info_keys)


@pytest.mark.parametrize(
    ("asked", "known"),
    [
        ("0.5.24", "0.5.23"),
        ("1.0", "0.5.23"),
        ("0.5.10.post2", "0.5.10.post1"),
        ("0.5.24.dev7+gabc", "0.5.23"),
        ("0.5.12rc1", "0.5.12"),
    ],
)
def test_an_unknown_version_is_approximated_and_says_so(asked: str, known: str) -> None:
    contract = contract_for(asked)
    assert (contract.version, contract.approximates) == (known, asked)
    assert contract.name == f"{known} (nearest known to {asked})"


def test_a_local_label_is_no_other_version() -> None:
    assert contract_for("0.5.23+cu128").approximates is None


@pytest.mark.parametrize(
    ("asked", "says"),
    [("0.4.6", "older than 0.4.6.post5"), ("main", "'main' is not a version"), ("", "'' is not")],
)
def test_what_cannot_be_judged_by(asked: str, says: str) -> None:
    with pytest.raises(ContractError, match=says):
        contract_for(asked)


@pytest.mark.parametrize(
    ("version", "module", "features"),
    [
        ("0.4.8", "midlayer", set()),
        ("0.5.9", "midlayer", set()),
        ("0.5.11", "midlayer", set()),
        ("0.5.12", "layers", {"fc_norm", "mla"}),
        ("0.5.17", "layers", {"fc_norm", "mla", "norm_before_fc"}),
        ("0.5.23", "layers", {"fc_norm", "mla", "norm_before_fc"}),
    ],
)
def test_loader_generations(version: str, module: str, features: set[str]) -> None:
    contract = contract_for(version)
    loader = contract.llama
    seen = {name for name in ("fc_norm", "norm_before_fc") if getattr(loader, name)}
    assert loader.layer_module == module
    assert seen | ({"mla"} if contract.mla else set()) == features
    assert (("midlayer", "layers.0") in loader.renames) == (module == "layers")


@pytest.mark.parametrize(
    ("version", "correct", "proposed", "histogram"),
    [
        ("0.5.3", None, None, None),
        ("0.5.4", None, None, None),
        ("0.5.5.post3", "spec_accept_token_num", "spec_draft_token_num", None),
        ("0.5.6", "spec_accept_token_num", "spec_draft_token_num", None),
        ("0.5.9", "spec_accept_token_num", "spec_draft_token_num", "spec_accept_histogram"),
        ("0.5.11", "spec_accepted_drafts", "spec_proposed_drafts", "spec_accept_histogram"),
        (
            "0.5.12",
            "spec_num_correct_drafts",
            "spec_num_proposed_drafts",
            "spec_correct_drafts_histogram",
        ),
        (
            "0.5.23",
            "spec_num_correct_drafts",
            "spec_num_proposed_drafts",
            "spec_correct_drafts_histogram",
        ),
    ],
)
def test_metric_names(
    version: str, correct: str | None, proposed: str | None, histogram: str | None
) -> None:
    meta = contract_for(version).meta
    assert meta.verify == "spec_verify_ct"
    assert (meta.correct, meta.proposed, meta.histogram) == (correct, proposed, histogram)


def test_features_by_version() -> None:
    def since(attribute: str) -> str:
        return next(v for v in ALL if getattr(contract_for(v), attribute))

    assert since("plugin_framework") == "0.5.11"
    assert since("cpu_eagle") == "0.5.16"
    assert since("forward_hooks") == "0.5.6"
    assert since("return_aux_hidden_states") == "0.5.23"
    assert "/server_info" in contract_for("0.5.6").endpoints


@pytest.mark.parametrize(
    ("version", "length", "denominator"),
    [
        ("0.5.3.post1", None, None),
        ("0.5.3.post2", "spec_accept_length", "steps"),
        ("0.5.5.post3", "spec_accept_length", "steps"),
        ("0.5.6", "spec_accept_length", "draft-tokens - 1"),
    ],
)
def test_the_servers_own_figures(version: str, length: str | None, denominator: str | None) -> None:
    meta = contract_for(version).meta
    assert (meta.accept_length, meta.rate_denominator) == (length, denominator)


def test_graphs_lose_ids_from_the_first_version_that_reads_them_to_0_5_10() -> None:
    losing = [v for v in ALL if contract_for(v).graphs_lose_ids]
    reading = [v for v in ALL if contract_for(v).reads_aux_ids]
    assert (losing[0], losing[-1]) == ("0.4.9", "0.5.10.post1")
    assert losing == reading[: len(losing)]


@pytest.mark.parametrize("version", ALL)
def test_every_version_runs_fc_by_the_width(version: str) -> None:
    contract = contract_for(version)
    assert contract.llama.fc_by_width
    assert contract.mla is None or contract.mla.fc_by_width


def test_architectures_come_and_go() -> None:
    assert "VILAForConditionalGeneration" in contract_for("0.5.4").targets
    assert "VILAForConditionalGeneration" not in contract_for("0.5.4.post1").targets
    assert contract_for("0.5.8").targets.get("KimiK25ForConditionalGeneration") is None
    assert contract_for("0.5.9").targets["KimiK25ForConditionalGeneration"] == "none"


def test_the_first_version_with_something() -> None:
    assert first_version({"layer_module": "layers"}) == "0.5.12"
    assert first_version({"norm_before_fc": True}) == "0.5.17"
    assert first_version(drafter_class="Eagle3DeepseekV2ForCausalLM") == "0.5.12"
    assert first_version(drafter_class="Eagle3Speculator") is None


def test_a_contract_can_be_hashed_by_its_version() -> None:
    assert contract_for("0.5.23") is contract_for("0.5.23")
    assert isinstance(contract_for("0.5.23"), Contract)
