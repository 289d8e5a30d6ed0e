from __future__ import annotations

import select
import socket
from typing import Any

import pytest

from eagle3_checks.measure import transport
from eagle3_checks.measure.client import Answer, Client, RequestFailed, send_all
from eagle3_checks.measure.prompts import Prompt
from tests_cpu.measure.stub import META, Handler, Reply, generate, serve

PROMPT = Prompt(id="p1", set="s", text="def f(")
CHAT = Prompt(id="c1", set="s", messages=({"role": "user", "content": "hello"},))


def ask(reply: Reply, prompt: Prompt = PROMPT, **words: Any) -> Answer:
    with serve(reply) as (url, _):
        client = Client(url, timeout=5)
        try:
            return client.generate(prompt, max_new_tokens=8, **words)
        finally:
            client.close()


def failure(reply: Reply, prompt: Prompt = PROMPT, **words: Any) -> str:
    with pytest.raises(RequestFailed) as caught:
        ask(reply, prompt, **words)
    return str(caught.value)


def test_what_is_sent_and_read() -> None:
    with serve() as (url, seen):
        client = Client(f"{url}/", timeout=5)
        answer = client.generate(PROMPT, max_new_tokens=8, ignore_eos=True)
        client.close()
    assert seen == [
        (
            "/generate",
            {
                "text": "def f(",
                "sampling_params": {"temperature": 0, "max_new_tokens": 8, "ignore_eos": True},
            },
        )
    ]
    assert (answer.text, answer.meta, answer.first, answer.gaps) == ("x", META, None, ())
    assert answer.seconds > 0


def test_a_stream_has_times_by_token() -> None:
    answer = ask(generate, stream=True)
    assert answer.meta["completion_tokens"] == 9
    assert answer.first is not None
    assert 0 < answer.first <= answer.seconds
    assert [tokens for _, tokens in answer.gaps] == [3, 5]
    assert answer.first + sum(gap for gap, _ in answer.gaps) <= answer.seconds


def test_a_text_that_looks_like_counts_is_not_read_as_some() -> None:
    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        del asked
        text = '{"completion_tokens": 77}'
        events = ({"text": text, "meta_info": META | {"completion_tokens": n}} for n in (2, 4))
        handler.events(*events, "[DONE]")

    answer = ask(reply, stream=True)
    assert [tokens for _, tokens in answer.gaps] == [2]


def test_chat_whole_and_streamed() -> None:
    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        if asked.get("stream"):
            assert asked["stream_options"]["continuous_usage_stats"]
            assert "return_meta_info" not in asked, "SGLang answers 400"
            chunks = ({"choices": [], "usage": {"completion_tokens": n}} for n in (0, 2, 5))
            handler.events(*chunks, "[DONE]")
        else:
            assert asked["return_meta_info"]
            message = {"message": {"content": "hi"}, "meta_info": META}
            handler.whole({"choices": [message]})

    assert ask(reply, CHAT).meta == META
    assert ask(reply, chat=True).text == "hi"
    streamed = ask(reply, CHAT, stream=True)
    assert streamed.meta == {"completion_tokens": 5}
    assert [tokens for _, tokens in streamed.gaps] == [3]


def test_a_chat_stream_without_counts_has_the_time_of_its_first_words() -> None:
    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        del asked
        words = ({"choices": [{"delta": {"content": c}}]} for c in ("", "a", "b"))
        handler.events(*words, {"choices": [], "usage": {"completion_tokens": 5}}, "[DONE]")

    answer = ask(reply, CHAT, stream=True)
    assert answer.first is not None
    assert answer.first < answer.seconds
    assert (answer.gaps, answer.meta) == ((), {"completion_tokens": 5})


def test_one_connection_serves_many_requests_and_both_forms() -> None:
    ports = set()

    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        ports.add(handler.client_address[1])
        generate(handler, asked)

    with serve(reply) as (url, _):
        client = Client(url, timeout=5)
        for number in range(6):
            client.generate(PROMPT, max_new_tokens=8, stream=number % 2 == 0)
        client.close()
    assert len(ports) == 1


def test_a_connection_the_server_closed_is_not_used_again() -> None:
    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        generate(handler, asked)
        handler.close_connection = True  # without saying so, as a keep-alive timeout does

    with serve(reply) as (url, seen):
        client = Client(url, timeout=5)
        client.generate(PROMPT, max_new_tokens=8)
        [(_, idle)] = client._transport._idle
        select.select([idle.sock], [], [], 5)
        client.generate(PROMPT, max_new_tokens=8)
        client.close()
    assert len(seen) == 2


def test_a_connection_that_rested_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "IDLE_SECONDS", 0.0)
    ports = set()

    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        ports.add(handler.client_address[1])
        generate(handler, asked)

    with serve(reply) as (url, _):
        client = Client(url, timeout=5)
        for _number in range(3):
            client.generate(PROMPT, max_new_tokens=8)
        client.close()
    assert len(ports) == 3


def test_many_threads_share_the_connections() -> None:
    with serve() as (url, seen):
        client = Client(url, timeout=5)
        answers, failures = send_all(
            lambda p: client.generate(p, max_new_tokens=8), [PROMPT] * 60, concurrency=6
        )
        assert len(client._transport._idle) <= 6
        client.close()
    assert (len(answers), failures, len(seen)) == (60, [], 60)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"overloaded", 503, "/generate answered 503: overloaded"),
        (b"<html>", 200, "answered no JSON"),
        (b"[1]", 200, "answered list, no object"),
        (b"{}", 200, "has no meta_info"),
    ],
)
def test_answers_that_cannot_be_used(body: bytes, status: int, says: str) -> None:
    message = failure(lambda handler, _: handler.whole(body, status))
    assert message.startswith("p1: ")
    assert says in message


def test_chat_answers_that_cannot_be_used() -> None:
    assert "without choices" in failure(lambda handler, _: handler.whole({}), CHAT)
    empty = {"choices": [{"message": {"content": "x"}}]}
    assert "carry no meta_info" in failure(lambda handler, _: handler.whole(empty), CHAT)


def test_streams_that_break_off_or_end_without_counts() -> None:
    def cut(handler: Handler, asked: dict[str, Any]) -> None:
        del asked
        handler.events({"meta_info": META}, end=False)

    def unfinished(handler: Handler, asked: dict[str, Any]) -> None:
        del asked
        handler.events({"meta_info": META})

    def error(handler: Handler, asked: dict[str, Any]) -> None:
        del asked
        handler.events({"error": {"message": "out of memory"}}, "[DONE]")

    assert "IncompleteRead" in failure(cut, stream=True)
    assert "broke off after 9 tokens" in failure(unfinished, stream=True)
    assert "ended without counts" in failure(error, stream=True)
    assert "out of memory" in failure(error, stream=True)


def test_nobody_there_and_a_server_that_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = Client(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=0.1)
        with pytest.raises(RequestFailed, match="p1: /generate: TimeoutError"):
            client.generate(PROMPT, max_new_tokens=8)
        client.close()
        free = listening.getsockname()[1]
    with pytest.raises(RequestFailed, match="ConnectionRefusedError"):
        Client(f"http://127.0.0.1:{free}").generate(PROMPT, max_new_tokens=8)


def test_the_key_is_sent_and_never_told() -> None:
    def reply(handler: Handler, asked: dict[str, Any]) -> None:
        del asked
        handler.whole({"got": handler.headers["Authorization"] == "Bearer secret"}, 401)

    with serve(reply) as (url, _):
        client = Client(url, api_key="secret")
        with pytest.raises(RequestFailed) as caught:
            client.generate(PROMPT, max_new_tokens=8)
        client.close()
    assert '{"got": true}' in str(caught.value)
    assert "secret" not in str(caught.value)
