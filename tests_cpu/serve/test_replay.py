"""The replay of loading, and the capture, against SGLang's own classes and a served pair."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.checkpoint import read_draft_config, read_manifest, read_target_config
from eagle3_checks.contract.capture import Capture, capture_rule, resolve_capture
from eagle3_checks.contract.replay import Fate, LoadPlan, State, replay
from eagle3_checks.contract.version import Contract, ContractError, contract_for
from eagle3_checks.server.flags import build_environment
from eagle3_checks.server.open import open_server
from eagle3_checks.settings import resolve
from tests_cpu.serve.drafters import HEAD, LLAMA, MLA, ON_THE_CPU_ALONE, latent
from tests_cpu.serve.running import TINY


@pytest.fixture(scope="module")
def contract() -> Contract:
    return contract_for(metadata.version("sglang"))


def asked_of_sglang(
    pairs: Mapping[str, tuple[Path, Path]], folder: Path
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Ask all target classes, and load all drafters with SGLang's own, in one process."""
    command = [sys.executable, "-m", "tests_cpu.serve.real_loader", str(TINY / "target")]
    command += [str(drafter) for _, drafter in pairs.values()]
    profile = resolve("tiny", environ={}).profile
    with (folder / "log").open("w") as log:
        done = subprocess.run(
            command,
            env=build_environment(
                profile, device="cpu", probe_prefix=folder / "probe", base=os.environ
            ),
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=500,
            check=False,
        )
    starts = ('{"asked"', '{"drafter"')
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(starts)]
    assert len(lines) == 1 + len(pairs), (folder / "log").read_text()[-4000:]
    return lines[0], dict(zip(pairs, lines[1:], strict=True))


def test_the_replay_and_the_rules_are_what_sglang_does(
    tmp_path: Path, healthy_pair: Callable[..., tuple[Path, Path]], contract: Contract
) -> None:
    cases = {("Llama", name): case for name, case in LLAMA.items()}
    cases |= {("MLA", name): latent(case) for name, case in MLA.items()}
    cases |= {("CPU", name): case for name, case in ON_THE_CPU_ALONE.items()}
    pairs = {
        f"{kind}: {name}": healthy_pair(tmp_path / str(number), **case)
        for number, ((kind, name), case) in enumerate(cases.items())
    }
    pairs["the tiny pair"] = (TINY / "target", TINY / "drafter")
    targets, seen = asked_of_sglang(pairs, tmp_path)
    assert list(misjudged(targets, contract)) == []
    assert len([a for a in targets["asked"].values() if a]) > 40
    wrong: dict[str, list[str]] = {}
    for name, (_, drafter) in pairs.items():
        found = list(differences(drafter, seen[name], contract))
        if name.startswith("CPU"):
            assert found == ["SGLang loads it; the replay says that it stops"], name
        elif found:
            wrong[name] = found
    assert wrong == {}
    stopped = [name for name in pairs if "error" in seen[name]]
    assert len(stopped) == 10, stopped


def misjudged(seen: dict[str, Any], contract: Contract) -> Iterator[str]:
    """Yield the target classes whose setter wants other boundaries than their rule says."""
    asked, depth = seen["asked"], seen["depth"]
    examples = [None if ids is None else tuple(ids) for ids in seen["examples"]]
    for name in sorted(asked.keys() & contract.targets.keys()):
        rule = capture_rule(contract.targets[name])
        played = rule and [list(rule.wanted(ids, depth)) for ids in examples]
        if played != asked[name]:
            yield f"{name}: SGLang {asked[name]}, the rule {played}"


def differences(drafter: Path, seen: dict[str, Any], contract: Contract) -> Iterator[str]:
    """Yield each way in which what SGLang did differs from the replay."""
    try:
        plan = replay(read_manifest(drafter), read_draft_config(drafter), contract)
    except ContractError as error:
        if "error" not in seen:
            yield f"SGLang builds it; the contract says: {error}"
        return
    stops = bool(plan.with_fate(Fate.FATAL))
    if stops or "error" in seen:
        if not stops:
            yield f"the replay loads it; SGLang says: {seen['error']}"
        elif "error" not in seen:
            yield "SGLang loads it; the replay says that it stops"
        return
    load = seen["load"]
    for what, real, played in (
        ("tensors", {t["name"]: t["into"] for t in load["tensors"]}, into(plan)),
        ("parameters", shapes(load), {p.name: list(p.parameter.shape) for p in plan.parameters}),
        ("unwritten", set(load["unwritten"]), {p.name for p in plan.parameters if not p.by}),
        ("partly", set(load["partly"]) - padded(plan), partly(plan)),
        ("shared", set(seen["shared"]["parameters"]), shared(plan)),
    ):
        if real != played:
            yield f"{what}: SGLang {real}, the replay {played}"


def into(plan: LoadPlan) -> dict[str, list[str]]:
    places = {t.name: [t.parameter] if t.parameter else [] for t in plan.tensors}
    return {**places, **({plan.token_map: ["hot_token_id"]} if plan.token_map else {})}


def shapes(load: dict[str, Any]) -> dict[str, list[int]]:
    return {p["name"]: p["shape"] for p in load["parameters"]}


def padded(plan: LoadPlan) -> set[str]:
    """Parameters with rows or columns that no tensor is meant to fill."""
    rows = {p.name for p in plan.parameters if p.parameter.takes not in ((), p.parameter.shape)}
    return rows | {str(t.parameter) for t in plan.with_fate(Fate.PADDED)}


def partly(plan: LoadPlan) -> set[str]:
    found = {p.name for p in plan.parameters if p.missing and p.by}
    return found - padded(plan)


def shared(plan: LoadPlan) -> set[str]:
    found = {p.name for p in plan.parameters if p.state is State.TARGET}
    # A tied head is the embedding, and is replaced with it.
    tied = plan.dims.tied and "model.embed_tokens.weight" in found
    return found | ({HEAD} if tied else set())


def test_a_served_pair_is_loaded_and_captured_as_worked_out(
    tmp_path: Path, contract: Contract
) -> None:
    profile = resolve("tiny", environ={}).profile
    small = dataclasses.replace(profile.server, args=("--max-total-tokens", "1024"))
    with open_server(dataclasses.replace(profile, server=small), tmp_path) as server:
        wiring = server.wiring()
    assert wiring is not None
    drafter, target = TINY / "drafter", TINY / "target"
    [load] = wiring.loads
    plan = replay(read_manifest(drafter), read_draft_config(drafter), contract)
    assert {t.name: list(t.into) for t in load.tensors} == into(plan)
    assert set(load.unwritten) == {p.name for p in plan.parameters if not p.by}
    assert set(load.shared) == shared(plan)
    seen = resolve_capture(read_draft_config(drafter), read_target_config(target), contract)
    assert isinstance(seen, Capture)
    [capture] = wiring.captures
    assert (capture.target_class, capture.layers) == (seen.target_class, seen.boundaries)
