"""Which server answers: what is compared with the profile, and what must stay the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.profile import Model, Profile, Server
from eagle3_checks.server.identity import changes, differences, identity

PROFILE = Profile(
    target=Model(path="moonshotai/Kimi-K2.5"), drafter=Model(path="/data/drafters/kimi-v7/")
)
INFO: dict[str, Any] = {
    "model_path": "/root/.cache/hub/models--moonshotai--Kimi-K2.5/snapshots/abc0/",
    "speculative_draft_model_path": "/mnt/kimi-v7",
    "speculative_algorithm": "eagle3",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
    "version": "0.5.23",
    "model_info": {"weight_version": "default"},
    "internal_states": [{"startup_time": {"a": 1.5}}, {"startup_time": {"a": 2.5}}],
}


def test_the_same_checkpoint_elsewhere_is_the_same() -> None:
    assert differences(PROFILE, INFO) == ()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("model_path", "moonshotai/Kimi-K2", "model_path is 'moonshotai/Kimi-K2', target.path is"),
        ("speculative_draft_model_path", "/mnt/kimi-v6", "drafter.path is '/data/drafters/kimi"),
        ("speculative_algorithm", "EAGLE", "speculative_algorithm is 'EAGLE', speculation.algo"),
        ("speculative_num_steps", 5, "speculative_num_steps is 5, speculation.steps is 3"),
        ("speculative_eagle_topk", 4, "speculation.topk is 1"),
        ("speculative_num_draft_tokens", 8, "speculation.draft_tokens is 4"),
    ],
)
def test_another_is_told(key: str, value: Any, says: str) -> None:
    (told,) = differences(PROFILE, INFO | {key: value})
    assert says in told


def test_a_version_counts_where_the_profile_names_one() -> None:
    named = Profile(server=Server(sglang="0.5.22"))
    assert differences(named, INFO) == ("version is '0.5.23', server.sglang is '0.5.22'",)
    assert differences(Profile(), INFO) == ()


@pytest.mark.parametrize("info", [{}, {"model_info": None, "internal_states": "x"}])
def test_what_a_server_does_not_say_is_not_compared(info: dict[str, Any]) -> None:
    assert differences(PROFILE, info) == ()
    assert changes(identity(INFO), identity(info)) == ()


def test_schedulers_may_answer_in_any_order() -> None:
    turned = INFO | {"internal_states": INFO["internal_states"][::-1]}
    assert changes(identity(INFO), identity(turned)) == ()


def test_a_restart_and_new_weights_are_changes() -> None:
    again = INFO | {"internal_states": [{"startup_time": {"a": 9.0}}]}
    assert changes(identity(INFO), identity(again)) == ("the start itself",)
    synced = INFO | {"model_info": {"weight_version": "step-100"}}
    assert changes(identity(INFO), identity(synced)) == (
        "weight_version was 'default' and is 'step-100'",
    )


@given(st.dictionaries(st.sampled_from(sorted(INFO)), st.none() | st.integers() | st.text()))
def test_no_answer_is_another_than_itself(odd: dict[str, Any]) -> None:
    info = INFO | odd
    assert changes(identity(info), identity(info)) == ()
    differences(PROFILE, info)
