"""The gate over the tiny pair, healthy and with planted defects, on the real server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from eagle3_checks.reference.defects import DEFECTS
from tests_cpu.serve.running import TINY, Run


def plant(name: str, folder: Path) -> Path:
    DEFECTS[name].plant(TINY, folder / name)
    return folder / name


def test_the_healthy_pair_passes(run_gate: Callable[..., Run]) -> None:
    run = run_gate()
    assert run.code == 0, run.output
    assert run.result["verdict"] == "pass"
    assert run.causes() == []
    assert run.acceptance()["accept_length"]["value"] >= 2.2
    assert len(run.acceptance()["per_position"]) == 3
    width = 3 * 128
    prefill = [f for f in run.result["measurements"]["wiring"]["forwards"] if f["mode"] == "EXTEND"]
    assert [(f["width"], f["fc_in"], f["fc_ran"]) for f in prefill] == [(width, width, True)]
    assert {s["concurrency"] for s in run.result["measurements"]["throughput"]["streams"]} == {1, 4}
    fired = [f for f in run.result["findings"] if f["status"] == "fail" and f["severity"] != "info"]
    assert fired == []
    assert run.status("SRV004") == "pass"  # every slot of the KV pool is free again
    seen = run.result["measurements"]["server"]
    assert seen["pool"]["used"] == 0 < seen["pool"]["capacity"]
    assert seen["peak_resident_bytes"] > 100 << 20


def test_a_tree_passes(run_gate: Callable[..., Run]) -> None:
    run = run_gate(
        TINY,
        EAGLE3_CHECKS_SPECULATION_TOPK="4",
        EAGLE3_CHECKS_SPECULATION_DRAFT_TOKENS="8",
        EAGLE3_CHECKS_FLOORS_ACCEPT_RATE="0.1",
    )
    assert run.code == 0, run.output
    assert run.acceptance()["per_position"] is None


def test_layers_0_names_pass_on_this_version(run_gate: Callable[..., Run], tmp_path: Path) -> None:
    run = run_gate(plant("layers-named", tmp_path))
    assert run.code == 0, run.output


def test_algorithm_eagle_skips_the_fusion_layer(run_gate: Callable[..., Run]) -> None:
    run = run_gate(TINY, "--keep-going", EAGLE3_CHECKS_SPECULATION_ALGORITHM="EAGLE")
    assert run.code == 1, run.output
    assert run.causes()[:2] == ["CFG004", "WIR003"]
    assert run.status("ACC001") == "fail"
    assert run.status("SRV003") == "pass"
    assert run.acceptance()["accept_length"]["value"] < 1.3


def test_a_target_of_five_layers_hands_over_one_state(
    run_gate: Callable[..., Run], tmp_path: Path
) -> None:
    run = run_gate(plant("target-5-layers", tmp_path), "--keep-going")
    assert run.code == 1, run.output
    assert run.causes()[:2] == ["FUS005", "WIR003"]
    assert run.status("ACC001") == "fail"
    assert run.status("SRV003") == "pass"
    assert run.acceptance()["accept_length"]["value"] < 1.3


def test_a_zero_d2t_collapses_acceptance(run_gate: Callable[..., Run], tmp_path: Path) -> None:
    run = run_gate(plant("d2t-zero", tmp_path), "--keep-going")
    assert run.code == 1, run.output
    assert run.causes()[0].startswith("VOC")
    assert run.status("ACC001") == "fail"
    assert run.acceptance()["accept_length"]["value"] < 1.5


def test_static_defects_stop_before_a_server(run_gate: Callable[..., Run], tmp_path: Path) -> None:
    for name, code in (("decoder-renamed", "KEY001"), ("fc-square", "FUS001")):
        run = run_gate(plant(name, tmp_path))
        assert run.code == 1, run.output
        assert run.causes()[0] == code
        assert not (tmp_path / "artefacts" / "server.log").exists()


def test_dropped_tensors_are_seen_in_the_server_too(
    run_gate: Callable[..., Run], tmp_path: Path
) -> None:
    run = run_gate(plant("decoder-renamed", tmp_path), "--keep-going")
    assert run.code == 1, run.output
    assert {"KEY001", "KEY002", "WIR001", "WIR002"} <= set(run.causes())
    assert run.status("ACC001") == "fail"
    assert run.acceptance()["accept_length"]["value"] < 1.3
