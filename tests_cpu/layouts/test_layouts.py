"""What is found in the layouts of published drafters: what is known of them, and nothing else."""

from __future__ import annotations

from functools import cache
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
from eagle3_checks.rules.base import STATIC_FACTS, Facts, run_rules
from eagle3_checks.rules.registry import all_rules
from eagle3_checks.verdict import Finding, Severity, Status
from tests_cpu.layouts.layout import Layout, layouts, write

OLD, NEW = "0.5.9", "0.5.23"
FUSION = "FUS"
"""The family of the capture layers, snapshotted by itself."""
RULES = [r for r in all_rules() if set(r.needs()) <= STATIC_FACTS - {"speculation"}]
TRAINERS = ("SafeAILab", "SpecForge", "speculators", "ModelOpt", "AngelSlim", "TorchSpec")
Judged = dict[tuple[str, str], tuple[Finding, ...]]


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Return the findings of every layout on both versions."""

    @cache
    def files(layout: Layout) -> tuple[Path, Path]:
        return write(layout, tmp_path_factory.mktemp(layout.name) / "pair")

    return {
        (layout.name, version): findings(*files(layout), version)
        for layout in layouts()
        for version in (OLD, NEW)
    }


def findings(target: Path, drafter: Path, version: str) -> tuple[Finding, ...]:
    manifest = read_manifest(drafter)
    facts = Facts(
        manifest=manifest,
        draft=read_draft_config(drafter),
        vocab=read_vocab_map(drafter, manifest),
        target=read_target_config(target),
        contract=contract_for(version),
    )
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
