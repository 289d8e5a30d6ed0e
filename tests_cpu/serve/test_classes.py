"""Targets of other classes: what they hand over is what transformers computes, and is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eagle3_checks.gate import Gate
from eagle3_checks.profile import Model, Profile, Resolved, Server, Speculation
from eagle3_checks.reference.states import true_states
from eagle3_checks.verdict import Finding, Status
from tests_cpu.serve.classes import write_drafter, write_target

NO_PROCESSOR = Path(__file__).with_name("no_processor")
WIRED = ("WIR000", "WIR001", "WIR002", "WIR003", "WIR004", "WIR006", "WIR007")


@contextmanager
def served(  # noqa: PLR0913 - what a pair and its server consist of
    folder: Path,
    kind: str,
    ids: list[int] | None = None,
    *,
    mla: bool = False,
    algorithm: str = "EAGLE3",
    depth: int = 8,
) -> Iterator[Gate]:
    write_target(kind, folder / "target", depth)
    write_drafter(folder / "drafter", ids, mla=mla)
    profile = Profile(
        name=kind,
        target=Model(path=str(folder / "target")),
        drafter=Model(path=str(folder / "drafter")),
        speculation=Speculation(algorithm=algorithm),
        server=Server(
            device="cpu",
            args=("--skip-tokenizer-init", "--max-total-tokens", "1024"),
            env={"PYTHONPATH": str(NO_PROCESSOR), "OMP_NUM_THREADS": "1"},
            start_timeout=500,
        ),
    )
    with Gate(Resolved(profile=profile, origins={}), folder / "out", keep_going=True) as gate:
        yield gate


def finding(gate: Gate, code: str) -> Finding:
    return gate.findings_of(code)[0]


def all_pass(gate: Gate) -> str:
    seen = {code: gate.findings_of(code) for code in WIRED}
    wrong = [f"{f.code} {f.message}" for found in seen.values() for f in found if f.is_error]
    assert wrong == []
    assert {code for code, found in seen.items() if found[0].status is Status.PASS} == set(WIRED)
    return seen["WIR004"][0].message


@pytest.mark.parametrize("kind", ["qwen3", "deepseek", "kimi"])
def test_transformers_loads_what_is_served(tmp_path: Path, kind: str) -> None:
    write_target(kind, tmp_path / "target")
    seen = true_states(tmp_path / "target", [(1, 2, 3, 4)], limit_gib=1)
    norms = [seen.states[1, 2, 3, 4][layer].norm for layer in range(9)]
    assert len({round(norm, 4) for norm in norms}) == 9


@pytest.mark.slow
def test_kimi_with_a_latent_drafter(tmp_path: Path) -> None:
    with served(tmp_path, "kimi", [1, 3, 4], mla=True) as gate:
        assert "what enters layers 2, 4, 5" in all_pass(gate)
        assert gate.wiring.captures[0].target_class == "KimiK25ForConditionalGeneration"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "ids", "layers"),
    [
        ("kimi", None, "2, 4, 5"),
        ("kimi", [2, 4, 5], "2, 4, 5"),
        ("deepseek", [1, 3, 4], "2, 4, 5"),
        ("qwen3", [1, 3, 4], "2, 4, 5"),
        ("qwen3", [2, 4, 5], "3, 5, 6"),
    ],
)
def test_layer_ids_of_both_conventions(
    tmp_path: Path, kind: str, ids: list[int] | None, layers: str
) -> None:
    with served(tmp_path, kind, ids) as gate:
        assert f"what enters layers {layers}" in all_pass(gate)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["kimi", "qwen3"])
def test_the_single_state_is_named(tmp_path: Path, kind: str) -> None:
    with served(tmp_path, kind, [1, 3, 4], algorithm="EAGLE") as gate:
        skipped = finding(gate, "WIR003")
        assert skipped.is_error
        assert "fc never ran in prefill" in skipped.message
        assert "the cause is the flag speculation.algorithm = EAGLE" in skipped.message
        assert finding(gate, "WIR004").message == "WIR003 failed"
        assert finding(gate, "SRV003").status is Status.PASS


@pytest.mark.slow
def test_a_shallow_target_hands_over_a_single_state(tmp_path: Path) -> None:
    with served(tmp_path, "qwen3", depth=5) as gate:
        skipped = finding(gate, "WIR003")
        assert skipped.is_error
        assert "layers 2, 2, 2, which are 1 of the 3 that fc takes" in skipped.message
