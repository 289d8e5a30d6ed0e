"""Aux states asked of a stand-in server: what is kept, what is asked again, what is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.measure.prompts import Prompt
from eagle3_checks.measure.states import Recorded, StatesError, Store, record_states
from eagle3_checks.measure.transport import Transport
from tests_cpu.measure.stub import Handler, serve

WIDTH, NEW = 3, 4
PROMPTS = [Prompt(id=f"p{n}", set="s", text="ab" * (n + 1)) for n in range(3)]


def answer(handler: Handler, asked: dict[str, Any]) -> None:
    """Answer as a server without a drafter does: one list of prompt states, then one a token."""
    if handler.path == "/tokenize":
        text = asked.get("prompt") or asked["messages"][0]["content"]
        handler.whole({"tokens": [ord(c) for c in text]})
        return
    ids, new = asked["input_ids"], asked["sampling_params"]["max_new_tokens"]
    rows = [[position + 0.5] * WIDTH for position in range(len(ids) + new - 1)]
    states = [rows[: len(ids)], *rows[len(ids) :]]
    handler.whole({"output_ids": list(range(new)), "meta_info": {"hidden_states": states}})


class Ask:
    """Records the prompts' states below a folder; returns what `record_states` does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []

    def __call__(
        self,
        reply: Callable[[Handler, dict[str, Any]], None] = answer,
        most: int = 10**9,
        subject: str = "t",
        **more: Any,
    ) -> tuple[list[Recorded], str]:
        store = Store(folder=self.folder, subject=subject, most_bytes=most)
        with serve(reply) as (url, seen):
            transport = Transport(url)
            try:
                return record_states(transport, PROMPTS, NEW, store, **more)
            finally:
                transport.close()
                self.asked = [path for path, _ in seen]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    return Ask(tmp_path / "states")


def test_states_are_kept_as_rows(ask: Ask) -> None:
    found, why = ask()
    assert why == ""
    assert [one.prompt_id for one in found] == ["p0", "p1", "p2"]
    one = found[1]
    assert one.tokens == (97, 98, 97, 98, 0, 1, 2, 3)
    assert (one.prompt_tokens, one.width) == (4, WIDTH)
    numbers = struct.unpack("<21f", one.path.read_bytes())
    assert numbers == tuple(p + 0.5 for p in range(7) for _ in range(WIDTH))


def test_what_lies_there_is_not_asked_again(ask: Ask) -> None:
    first, _ = ask()
    again, _ = ask()
    assert again == first
    assert ask.asked == []
    first[2].path.write_bytes(b"half")
    repaired, _ = ask()
    assert repaired == first
    assert ask.asked == ["/tokenize", "/generate"]
    ask(subject="another target")
    assert len(ask.asked) == 6


def test_a_full_store_ends_the_recording(ask: Ask) -> None:
    found, why = ask(most=150)  # 60 bytes, then 84, then 108
    assert [one.prompt_id for one in found] == ["p0", "p1"]
    assert why == "the states had reached 1.5e-07 GB"


def test_chats_go_through_the_template(ask: Ask) -> None:
    found, _ = ask(chat=True)
    assert found[0].prompt_tokens == 2


def without_states(handler: Handler, asked: dict[str, Any]) -> None:
    if handler.path == "/tokenize":
        answer(handler, asked)
    else:
        handler.whole({"output_ids": [1], "meta_info": {}})


def with_a_cached_prefix(handler: Handler, asked: dict[str, Any]) -> None:
    if handler.path == "/tokenize":
        answer(handler, asked)
    else:
        states = [[[0.5] * WIDTH], [0.5] * WIDTH]
        handler.whole({"output_ids": [1, 2, 3, 4], "meta_info": {"hidden_states": states}})


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (without_states, "p0: the answer holds no hidden states; start the server with"),
        (with_a_cached_prefix, "p0: 2 states for 6 tokens; .*--disable-radix-cache"),
        (lambda h, _: h.whole(b"no", 500), "p0: /tokenize answered 500: no"),
        (lambda h, _: h.whole(b"no"), "p0: /tokenize answered no JSON"),
        (lambda h, _: h.whole([]), "p0: /tokenize answered list, no object"),
        (lambda h, _: h.whole({"tokens": []}), "p0: /tokenize returned no tokens"),
    ],
)
def test_other_answers_are_refused(
    ask: Ask, reply: Callable[[Handler, dict[str, Any]], None], said: str, tmp_path: Path
) -> None:
    with pytest.raises(StatesError, match=said):
        ask(reply)
    assert not list(tmp_path.rglob("*.f32"))
