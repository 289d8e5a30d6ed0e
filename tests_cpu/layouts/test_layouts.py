"""What is found in the layouts of published drafters: what is known of them, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.checkpoint import (
    read_draft_config,
    read_manifest,
    read_target_config,
    read_vocab_map,
)
from eagle3_checks.contract import contract_for
from eagle3_checks.contract.version import known_versions
from eagle3_checks.rules.base import STATIC_FACTS, Facts, run_rules
from eagle3_checks.rules.registry import all_rules
from eagle3_checks.verdict import Finding, Severity, Status
from tests_cpu.layouts.layout import Layout, layouts, write

OLD, NEW = "0.5.9", "0.5.23"
FUSION = "FUS"
"""The family of the capture layers, snapshotted by itself."""
RULES = [r for r in all_rules() if set(r.needs()) <= STATIC_FACTS - {"speculation"}]
TRAINERS = ("SafeAILab", "SpecForge", "speculators", "ModelOpt", "AngelSlim", "TorchSpec")
SINCE = {
    "aq-medai-kimi-k2.5": "0.5.10",
    "lightseek-kimi-k2.5": "0.5.10",
    "lightseek-kimi-k2.5-mla": "0.5.12",
    "lightseek-kimi-k2.6-eagle3.1-mla": "0.5.13",
    "lmsys-eagle3-llama3.1-8b": "0.4.9",
    "lmsys-gpt-oss-120b": "0.4.9",
    "lmsys-qwen3-235b-a22b": "0.4.9",
    "lmsys-specforge-llama3.1-8b": "0.4.9",
    "lmsys-specforge-qwen3-30b-a3b": "0.4.9",
    "nvidia-gpt-oss-120b-short-context": "0.5.12",
    "nvidia-gpt-oss-120b-v3": "0.5.17",
    "nvidia-kimi-k2.5-thinking": "0.5.12",
    "nvidia-llama-4-maverick": "0.4.9",
    "thoughtworks-glm-4.7-flash": "0.4.9",
    "torchspec-minimax-m2.5": "0.5.5.post1",
}
"""The version from which on no healthy layout has an error; a target's class may be newer, and is
then a warning."""
Judged = dict[tuple[str, str], tuple[Finding, ...]]


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Return the findings of every layout on both versions, and on the first that serves it."""
    found: Judged = {}
    for layout in layouts():
        facts = read(*write(layout, tmp_path_factory.mktemp(layout.name) / "pair"))
        for version in {OLD, NEW, SINCE.get(layout.name, NEW)}:
            found[layout.name, version] = findings(facts, version)
    return found


def read(target: Path, drafter: Path) -> Facts:
    manifest = read_manifest(drafter)
    return Facts(
        manifest=manifest,
        draft=read_draft_config(drafter),
        vocab=read_vocab_map(drafter, manifest),
        target=read_target_config(target),
    )


def findings(facts: Facts, version: str) -> tuple[Finding, ...]:
    facts = replace(facts, contract=contract_for(version))
    failed = (Status.FAIL, Status.INCONCLUSIVE)
    return tuple(f for f in run_rules(RULES, facts) if f.status in failed)


def told(found: tuple[Finding, ...]) -> list[str]:
    return [f"{f.severity.value} {f.code} {f.message}" for f in found]


ALL = pytest.mark.parametrize("layout", layouts(), ids=lambda layout: layout.name)
VERSIONS = pytest.mark.parametrize("version", [OLD, NEW])


@ALL
@VERSIONS
def test_findings(judged: Judged, layout: Layout, version: str, snapshot: Any) -> None:
    found = [f for f in judged[layout.name, version] if f.family != FUSION]
    assert told(tuple(found)) == snapshot


@ALL
@VERSIONS
def test_findings_about_captured_layers(
    judged: Judged, layout: Layout, version: str, snapshot: Any
) -> None:
    found = tuple(f for f in judged[layout.name, version] if f.family == FUSION)
    assert told(found) == snapshot


@ALL
@VERSIONS
def test_every_finding_has_its_source(judged: Judged, layout: Layout, version: str) -> None:
    found = judged[layout.name, version]
    seen = {f"{f.code} {f.severity.value}" for f in found if f.severity is not Severity.INFO}
    expected = layout.expected.get(version, {})
    assert seen == set(expected)
    assert all(expected.values())


@ALL
def test_a_healthy_layout_has_no_error_on_the_newest_version(
    judged: Judged, layout: Layout
) -> None:
    found = judged[layout.name, NEW]
    if layout.healthy:
        assert [f.message for f in found if f.is_error] == []
    else:
        assert found


@ALL
def test_a_healthy_layout_has_no_error_on_the_first_version_that_serves_it(
    judged: Judged, layout: Layout
) -> None:
    assert (layout.name in SINCE) is layout.healthy
    if layout.healthy:
        found = judged[layout.name, SINCE[layout.name]]
        assert [f.message for f in found if f.is_error] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout", [each for each in layouts() if each.healthy], ids=lambda x: x.name
)
def test_a_healthy_layout_has_no_error_from_that_version_on(tmp_path: Path, layout: Layout) -> None:
    facts, versions = read(*write(layout, tmp_path / "pair")), known_versions()
    errors = [any(f.is_error for f in findings(facts, version)) for version in versions]
    last = max((place for place, faulty in enumerate(errors) if faulty), default=-1)
    assert versions[last + 1] == SINCE[layout.name]


@ALL
def test_a_layout_names_where_it_is_from(layout: Layout) -> None:
    assert layout.sources
    assert layout.target["sources"]


def test_all_trainers_and_targets_are_there() -> None:
    assert len(layouts()) >= 14
    for trainer in TRAINERS:
        assert any(trainer in layout.trainer for layout in layouts())
    kinds = {layout.target["config"]["model_type"] for layout in layouts()}
    assert {"llama", "qwen3", "gpt_oss", "kimi_k25", "glm4_moe_lite", "minimax_m2"} <= kinds


@pytest.mark.parametrize("name", ["aq-medai-kimi-k2.5", "lightseek-kimi-k2.5-mla"])
def test_kimi_fuses_three_states_of_7168(name: str) -> None:
    (layout,) = (each for each in layouts() if each.name == name)
    assert layout.tensors["fc.weight"][1] == (7168, 3 * 7168)
    assert 3 * 7168 == 21504


def test_the_tensors_come_to_the_published_size() -> None:
    sized = [layout for layout in layouts() if layout.mebibytes]
    assert sized
    for layout in sized:
        assert layout.size / 2**20 == pytest.approx(layout.mebibytes, abs=0.1)
