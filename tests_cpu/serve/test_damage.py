"""A damaged server is found out, and the damage is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import eagle3_checks
from eagle3_checks.gate import Gate
from eagle3_checks.profile import Resolved
from eagle3_checks.settings import resolve
from eagle3_checks.verdict import Finding, Status

DAMAGE = Path(eagle3_checks.__file__).with_name("inside") / "damage"
QUIET = ("SRV003", "WIR001", "WIR002", "WIR003")
"""Rules that a damaged wiring leaves in peace: nothing but its values shows it."""


@contextmanager
def damaged(name: str, artefacts: Path) -> Iterator[Gate]:
    tiny = resolve("tiny", environ={}).profile
    env = {**tiny.server.env, "PYTHONPATH": str(DAMAGE), "EAGLE3_DAMAGE": name}
    server = dataclasses.replace(tiny.server, env=env, args=("--max-total-tokens", "4096"))
    prompts = dataclasses.replace(tiny.prompts, limit=8)
    profile = dataclasses.replace(tiny, server=server, prompts=prompts)
    with Gate(Resolved(profile=profile, origins={}), artefacts) as gate:
        yield gate


def finding(gate: Gate, code: str) -> Finding:
    return gate.findings_of(code)[0]


def assert_found(gate: Gate, code: str, says: str) -> None:
    found = finding(gate, code)
    assert found.is_error, found.message
    assert says in found.message
    quiet = {c: finding(gate, c).status for c in QUIET if c != code}
    assert set(quiet.values()) == {Status.PASS}, quiet


def test_states_of_the_next_layers(tmp_path: Path) -> None:
    with damaged("shifted-layers", tmp_path) as gate:
        says = "what enters layers 3, 5, 6, not 2, 4, 5: 1 layer too late"
        assert_found(gate, "WIR004", says)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("swapped-states", "WIR004", "in the order of layers 5, 4, 2; SGLang hands over 2, 4, 5"),
        ("no-residual", "WIR004", "lack their residual: they are what the feed-forward parts"),
        ("partial-sums", "WIR004", "aux state 1, for what enters layer 2, is an unfinished sum"),
        ("one-state", "WIR003", "fc never ran in prefill and draft-extend: the drafter received"),
        ("wrong-embedding", "WIR006", "the drafter's embedding must be the target's"),
        ("wrong-head", "WIR008", "lm_head.weight is served with "),
        ("zeroed-layer", "WIR008", "is served with 0 where "),
        ("noisy-weights", "WIR008", " more of "),
        ("accepts-wrong-drafts", "LOS001", "from the target's choice: "),
        ("not-deterministic", "LOS003", "between two runs: "),
        ("batch-dependent", "LOS004", "between alone and at concurrency 4: "),
        ("cache-dependent", "LOS005", "from before, with "),
        ("token-zero", "LOS006", " tokens 0 in a row from output token "),
        ("dies-on-grammar", "LOS011", "the server did not outlive it"),
    ],
)
def test_damage_is_named(tmp_path: Path, name: str, code: str, says: str) -> None:
    with damaged(name, tmp_path) as gate:
        assert_found(gate, code, says)
