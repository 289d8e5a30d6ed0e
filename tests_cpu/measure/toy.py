"""A toy server for losslessness: each token follows from all before it, and faults can be had."""

from __future__ import annotations

import json
import threading
from typing import Any

from tests_cpu.measure.stub import Handler

VOCAB = 89
WAIT_SECONDS = 0.1
WRONG_AT = 5
"""Output token at which an answer with a fault goes astray."""


def choice(tokens: list[int]) -> int:
    """Return the token that follows, never 0."""
    return sum(i * t for i, t in enumerate(tokens, start=1)) % (VOCAB - 1) + 1


class Toy:
    """Answers as its fault has it; without one as a healthy server does."""

    def __init__(self, fault: str = "", margin: float = 2.0) -> None:
        """`margin`: by how much the target prefers its choice over any wrong token, in nats."""
        self.fault = fault
        self.margin = margin
        self.dead = False
        self._seen: set[tuple[int, ...]] = set()
        self._inside = 0
        self._asked = 0
        self._aborted: set[str] = set()
        self._turn = threading.Condition()

    def reply(self, handler: Handler, asked: dict[str, Any]) -> None:
        """Answer one request."""
        if self.dead:
            handler.close_connection = True
        elif handler.path == "/tokenize" and self.fault != "no-tokenizer":
            handler.whole({"tokens": [ord(c) % (VOCAB - 1) + 1 for c in asked["prompt"]]})
        elif handler.path == "/abort_request" and self.fault != "no-abort":
            with self._turn:
                self._aborted.add(asked["rid"])
                self._turn.notify_all()
            handler.whole(b"")
        elif handler.path != "/generate":
            handler.whole({"error": {"message": "no such place"}}, 404)
        elif self.fault == "fails":
            handler.whole({}, 500)
        elif "json_schema" in asked["sampling_params"]:
            self._constrained(handler, asked)
        elif asked.get("stream"):
            self._stream(handler, asked)
        elif asked.get("return_hidden_states") and self.fault == "hidden-refused":
            handler.whole({"error": {"message": "not configured to return hidden states"}}, 400)
        else:
            handler.whole(self._generate(asked))

    def _generate(self, asked: dict[str, Any]) -> dict[str, Any]:
        prompt, sampling = asked["input_ids"], asked["sampling_params"]
        cached = len(prompt) - 1 if tuple(prompt) in self._seen else 0
        self._seen.add(tuple(prompt))
        tokens = self._tokens(prompt, sampling["max_new_tokens"], cached=bool(cached))
        text, finish = "".join(chr(97 + t % 26) for t in tokens), "length"
        for stop in sampling.get("stop", ()):
            if stop in text and self.fault != "stop-missed":
                keep = 3 if self.fault == "stop-kept" else 0
                text, finish = text[: text.index(stop) + keep], "stop"
        meta: dict[str, Any] = {
            "cached_tokens": 0 if self.fault == "no-cache" else cached,
            "completion_tokens": len(tokens),
            "finish_reason": {"type": finish},
        }
        if "top_logprobs_num" in asked:
            meta |= self._scores(prompt, asked["logprob_start_len"])
        elif asked.get("return_logprob"):
            rows: list[list[Any]] = [[-0.5, token, None] for token in tokens]
            if self.fault == "logprob-nan":
                rows[2][0] = None
            if self.fault == "logprob-other":
                rows[2][1] += 1
            meta["output_token_logprobs"] = rows[:1] if self.fault == "logprob-short" else rows
        if asked.get("return_hidden_states"):
            states: list[Any] = [[[0.0, 1.0]] * len(prompt), *[[0.0, 1.0]] * (len(tokens) - 1)]
            meta["hidden_states"] = states[:-1] if self.fault == "hidden-short" else states
        return {"text": text, "output_ids": tokens, "meta_info": meta}

    def _tokens(self, prompt: list[int], count: int, *, cached: bool) -> list[int]:
        company = self.fault == "company" and self._company()
        self._asked += 1
        wrong = (
            self.fault == "wrong"
            or company
            or (self.fault == "cache" and cached)
            or (self.fault == "moody" and self._asked % 3 == 0)
        )
        text = list(prompt)
        extra = 1 if self.fault == "short-long" and count <= 3 else 0
        for place in range(count + extra):
            token = choice(text)
            if wrong and place == WRONG_AT:
                token = token % (VOCAB - 1) + 1
            zero = self.fault == "zeroes" and 4 <= place < 14
            text.append(0 if zero else token)
        return text[len(prompt) :]

    def _company(self) -> bool:
        """Whether another request comes within a tenth of a second."""
        with self._turn:
            self._inside += 1
            self._turn.notify_all()
            together = self._turn.wait_for(lambda: self._inside > 1, WAIT_SECONDS)
            self._inside -= 1
        return together

    def _scores(self, text: list[int], start: int) -> dict[str, Any]:
        rows: list[Any] = [[None, text[start], None]]
        tops: list[Any] = [None]
        for place in range(start + 1, len(text)):
            best = choice(text[:place])
            logprob = -0.1 if text[place] == best else -0.1 - self.margin
            rows.append([logprob, text[place], None])
            other = best % (VOCAB - 1) + 1
            tops.append([[-0.1, best, None], [-0.1 - self.margin, other, None]])
        if self.fault == "scores-lost":
            tops = []
        return {"input_token_logprobs": rows, "input_top_logprobs": tops}

    def _constrained(self, handler: Handler, asked: dict[str, Any]) -> None:
        allowed = json.loads(asked["sampling_params"]["json_schema"])["enum"]
        if self.fault == "json-dies":
            self.dead = True
            handler.close_connection = True
            return
        texts = {"json-cut": '"every tok', "json-other": '"something else"'}
        finish = "length" if self.fault == "json-endless" else "stop"
        handler.whole(
            {
                "text": texts.get(self.fault, json.dumps(allowed[0])),
                "output_ids": [1],
                "meta_info": {"finish_reason": {"type": finish}},
            }
        )

    def _stream(self, handler: Handler, asked: dict[str, Any]) -> None:
        """Stream a first token, and the end once the request is aborted."""
        count = asked["sampling_params"]["max_new_tokens"]
        ends = {"abort-ignored": (count, "length"), "abort-unsaid": (3, "stop")}
        tokens, finish = ends.get(self.fault, (3, "abort"))
        end = {"completion_tokens": tokens, "finish_reason": {"type": finish}}

        def events() -> Any:
            yield {"text": "a", "meta_info": {"completion_tokens": 1, "finish_reason": None}}
            if self.fault != "no-abort":
                with self._turn:
                    self._turn.wait_for(lambda: asked["rid"] in self._aborted, 5.0)
            yield {"text": "ab", "meta_info": end}
            yield "[DONE]"

        handler.stream(events())
