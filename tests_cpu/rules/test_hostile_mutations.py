"""Random mutations of a healthy pair: what an independent look finds wrong, a finding names."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3_checks.checkpoint.scan import scan
from eagle3_checks.contract.parameters import Init
from eagle3_checks.contract.replay import Fate, LoadPlan, replay
from eagle3_checks.contract.version import ContractError
from eagle3_checks.rules.base import STATIC_FACTS, Facts, run_rules
from eagle3_checks.rules.registry import all_rules
from eagle3_checks.verdict import Finding, Severity, Status
from tests_cpu.conftest import DRAFT_CONFIG, DRAFT_VOCAB, VOCAB, draft_tensors, mla_tensors
from tests_cpu.rules.cases.tensors import IDS, offsets, trained

Written = Callable[..., tuple[Path, Facts]]
RULES = [rule for rule in all_rules() if set(rule.needs()) <= STATIC_FACTS]
VERSIONS = st.sampled_from(["0.5.23", "0.5.12", "0.5.9", "0.4.10"])
SHAPES = st.lists(st.sampled_from([1, 2, 8, 15, 16, 17, 24, 32, 48, 64, 96, 128]), max_size=3)
FRONTS = st.sampled_from(["x.", "model.", "draft_model.", "layers.1.", "midlayer.0."])
CHANGES = st.one_of(
    st.just("drop"),
    st.tuples(st.just("rename"), FRONTS),
    st.tuples(st.just("reshape"), SHAPES),
)
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [..., None, True, -1, 0, 3, 1.5, "16", [], {}, [1]]
)


@pytest.fixture(scope="session")
def written(
    tmp_path_factory: pytest.TempPathFactory,
    healthy_pair: Callable[..., tuple[Path, Path]],
    read_facts: Callable[..., Facts],
) -> Written:
    """Return `written(version, **changes)`: the drafter's folder, and the facts of the pair."""

    def write(version: str = "0.5.23", **changes: Any) -> tuple[Path, Facts]:
        target, drafter = healthy_pair(tmp_path_factory.mktemp("pair"), **changes)
        return drafter, read_facts(target, drafter, version)

    return write


def replayed(facts: Facts) -> LoadPlan | None:
    """Return the replay; None where SGLang cannot build the drafter."""
    assert facts.manifest is not None
    assert facts.draft is not None
    assert facts.contract is not None
    try:
        return replay(facts.manifest, facts.draft, facts.contract)
    except ContractError:
        return None


def failed(facts: Facts) -> list[Finding]:
    found = [f for f in run_rules(RULES, facts) if f.status is Status.FAIL]
    return [f for f in found if f.severity in (Severity.ERROR, Severity.WARNING)]


def mutated(tensors: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return what the fixture takes as changes of the healthy tensors."""
    made: dict[str, Any] = {}
    for name, change in changes.items():
        spec = tensors[name]
        if change == "drop":
            made[name] = ...
        elif change[0] == "rename":
            made |= {name: ..., f"{change[1]}{name}": spec}
        else:
            made[name] = (spec[0], tuple(change[1]), None)
    return made


def wrong(plan: LoadPlan) -> set[str]:
    """Return the names of tensors that do not arrive whole, and of parameters left random."""
    bad = plan.with_fate(Fate.DROPPED, Fate.FATAL, Fate.CUT, Fate.PADDED)
    random = (p.name for p in plan.unfilled if p.parameter.init is Init.RANDOM)
    return {tensor.name for tensor in bad} | set(random)


@settings(max_examples=80, deadline=None)
@given(data=st.data(), mla=st.booleans(), version=VERSIONS)
def test_every_tensor_and_parameter_that_goes_wrong_is_named(
    written: Written,
    data: st.DataObject,
    mla: bool,  # noqa: FBT001
    version: str,
) -> None:
    tensors = mla_tensors() if mla else draft_tensors()
    names = st.sampled_from(sorted(tensors))
    changes = data.draw(st.dictionaries(names, CHANGES, min_size=1, max_size=4))
    _, facts = written(version, mla=mla, tensors=mutated(tensors, changes))
    found, plan = failed(facts), replayed(facts)
    if plan is None:
        assert any(f.is_error for f in found)
        return
    told = json.dumps([(f.message, dict(f.evidence)) for f in found])
    lost = {name for name in wrong(plan) if name not in told}
    # SGLang's own names of parameters differ from the file's in messages about single ones.
    assert {name for name in lost if name.removeprefix("model.") not in told} == set()


@settings(max_examples=80, deadline=None)
@given(
    draft=st.dictionaries(st.sampled_from(sorted(DRAFT_CONFIG)), VALUES, min_size=1, max_size=3),
    version=VERSIONS,
)
def test_a_config_that_builds_no_drafter_is_an_error(
    written: Written,
    draft: dict[str, Any],
    version: str,
) -> None:
    _, facts = written(version, draft=draft)
    plan = replayed(facts)
    if plan is None or wrong(plan):
        assert any(f.is_error for f in failed(facts))


@settings(max_examples=60, deadline=None)
@given(
    ids=st.lists(st.integers(0, 9), min_size=2, max_size=5),
    depth=st.integers(1, 12),
    stated=st.booleans(),
)
def test_a_capture_of_another_number_of_states_is_an_error(
    written: Written,
    ids: list[int],
    depth: int,
    stated: bool,  # noqa: FBT001
) -> None:
    """Llama's class captures what enters layer id + 1, or 2, n // 2 and n - 3."""
    wanted = [i + 1 for i in ids] if stated else [2, depth // 2, depth - 3]
    states = len(ids) if stated else 3
    arrive = len({boundary for boundary in wanted if 0 <= boundary < depth})
    _, facts = written(
        target={"num_hidden_layers": depth},
        draft={"eagle_config": {IDS: ids}} if stated else {},
        tensors={"fc.weight": ("BF16", (16, 16 * states), None)},
    )
    errors = [f for f in failed(facts) if f.is_error]
    assert bool(errors) is (arrive != states), [f.message for f in errors]


@settings(max_examples=60, deadline=None)
@given(
    table=st.lists(st.integers(-70, 140), min_size=DRAFT_VOCAB, max_size=DRAFT_VOCAB)
    | st.permutations(range(VOCAB)).map(lambda p: [t - i for i, t in enumerate(p[:DRAFT_VOCAB])])
)
def test_a_map_is_an_error_unless_its_ids_are_distinct_and_exist(
    written: Written,
    table: list[int],
) -> None:
    kept = [i + offset for i, offset in enumerate(table)]
    sound = len(set(kept)) == len(kept) and all(0 <= token < VOCAB for token in kept)
    tensors = {"d2t": offsets(*table), "t2d": ...}
    _, facts = written(tensors=tensors)
    errors = [f for f in failed(facts) if f.is_error]
    assert bool(errors) is not sound, [f.message for f in errors]


MATRICES = sorted(n for n, spec in trained().items() if spec[0] == "BF16")


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(MATRICES),
    value=st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1.0]),
    places=st.sets(st.integers(0, 15), min_size=1, max_size=5),
)
def test_every_element_that_is_no_number_is_counted(
    written: Written,
    name: str,
    value: float,
    places: set[int],
) -> None:
    dtype, shape, content = trained()[name]
    poked = bytearray(content or b"")
    for place in places:
        poked[2 * place : 2 * place + 2] = struct.pack("<f", value)[2:]
    tensors = {**trained(), name: (dtype, shape, bytes(poked))}
    drafter, facts = written(tensors=tensors)
    assert facts.manifest is not None
    facts = replace(facts, values=scan(drafter, facts.manifest))
    found = [f for f in failed(facts) if f.code == "VAL001"]
    assert bool(found) is not math.isfinite(value)
    if found:
        assert found[0].evidence["tensor"] == name
        assert found[0].evidence["non_finite"] == len(places)
