from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from eagle3_checks.checkpoint.subject import Subject
from eagle3_checks.contract import contract_for
from eagle3_checks.facts import Trial, Trials
from eagle3_checks.measure.prompts import load_prompts
from eagle3_checks.profile import Prompts
from eagle3_checks.reference import oracle
from eagle3_checks.reference.defects import DEFECTS
from eagle3_checks.replaying import asked_of, plan_of, true_capture
from eagle3_checks.settings import resolve
from eagle3_checks.trying import try_profile

PROMPTS = load_prompts(Prompts(sets=("heldout-code",), limit=3)).prompts


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Let a pair as small as this one have one thread: a second costs more than it brings."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tried(pair: Path) -> Trials:
    values = {
        "target.path": str(pair / "target"),
        "drafter.path": str(pair / "drafter"),
        "prompts.max_new_tokens": 24,
    }
    profile = resolve("tiny", values, {}).profile
    files, contract = Subject(profile.drafter.path, profile.target.path), contract_for("0.5.23")
    plan = plan_of(oracle, profile, files, true_capture(files, contract))
    served = tuple(oracle.from_transformers(plan, asked_of(oracle, PROMPTS)))
    return try_profile(profile, files, contract, PROMPTS, served)


@pytest.fixture(scope="module")
def healthy(tiny: Path) -> Trials:
    return tried(tiny)


def test_nothing_much_improves_the_healthy_drafter(healthy: Trials) -> None:
    best = max(healthy.repairs, key=lambda trial: trial.accept_length)
    assert best.accept_length <= healthy.unchanged.accept_length + 0.15
    assert healthy.coverage > 0.9


def test_a_replay_counts_as_what_was_served(healthy: Trials) -> None:
    assert healthy.unchanged.distance == 0
    assert min(t.distance or 0 for t in healthy.faults) > 0


def test_trials_leave_the_drafter_as_it_was(healthy: Trials) -> None:
    """Each is worth something by itself: none was made from another's drafter."""
    lengths = {trial.name: trial.accept_length for trial in healthy.faults}
    assert lengths["loaded-weights: a decoder layer of zeros"] < 1.2
    assert healthy.ablations[0].accept_length < healthy.unchanged.accept_length
    assert len({trial.per_position for trial in healthy.ablations}) == 3


@pytest.mark.parametrize(
    "name",
    [
        "fc-columns-rolled",
        "d2t-rolled",
        "embedding-trained",
        "heads-8",
        "key-heads-swapped",
        "rope-interleaved",
        "aux-shallow",
    ],
)
def test_the_change_that_undoes_a_defect_brings_all_of_it_back(
    name: str, tiny: Path, tmp_path: Path, healthy: Trials
) -> None:
    defect = DEFECTS[name]
    defect.plant(tiny, tmp_path / "pair")
    trials = tried(tmp_path / "pair")
    best: Trial = max(trials.repairs, key=lambda trial: trial.accept_length)
    assert best.cause == defect.cause, best
    assert best.per_position == healthy.unchanged.per_position
    assert trials.unchanged.accept_length < healthy.unchanged.accept_length


def test_an_aux_state_without_effect_shows(tiny: Path, tmp_path: Path) -> None:
    DEFECTS["fc-block-zero"].plant(tiny, tmp_path / "pair")
    trials = tried(tmp_path / "pair")
    same = [t.change for t in trials.ablations if t.per_position == trials.unchanged.per_position]
    assert same == ["aux state 3 left out"]


def test_a_small_vocabulary_shows(tiny: Path, tmp_path: Path) -> None:
    DEFECTS["vocabulary-small"].plant(tiny, tmp_path / "pair")
    assert tried(tmp_path / "pair").coverage < 0.3
