"""The drafter that this repository trains, served by SGLang.

`pytest` leaves these tests out; `pytest --eagle3-profile my-drafter.toml` runs them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eagle3_checks.facts import DraftConfig, ServerSeen
from eagle3_checks.gate import Gate

pytestmark = pytest.mark.gpu


def test_every_tensor_is_loaded(check: Callable[[str], None]) -> None:
    check("KEY001")


def test_the_fusion_layer_runs(check: Callable[[str], None]) -> None:
    check("WIR003")


def test_the_accept_length_reaches_its_floor(check: Callable[[str], None]) -> None:
    check("ACC001")


def test_the_draft_vocabulary_is_the_one_we_train(drafter: DraftConfig) -> None:
    assert drafter.draft_vocab_size == 1024


def test_it_is_served_as_in_production(eagle3_server: ServerSeen) -> None:
    assert eagle3_server.sglang == "0.5.23"


def test_the_first_draft_is_worth_its_step(gate: Gate) -> None:
    depths = gate.acceptance.per_position
    assert depths is not None
    assert depths[0] > 0.5


def test_our_own_tests_stay_our_own() -> None:
    """No fixture of the gate: it runs with and without a profile."""
