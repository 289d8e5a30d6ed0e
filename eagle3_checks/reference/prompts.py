"""Prompts for the tiny pair, cut from the files its training never saw."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tokenizers import Tokenizer

    from eagle3_checks.reference.corpus import Corpus, SourceFile

PROMPT_TOKENS = 96
SEED = 20


def cut_prompts(corpus: Corpus, tokenizer: Tokenizer, count: int) -> list[dict[str, str]]:
    """Cut `count` prompts of about 96 tokens out of held-out files, each from a line's beginning.

    They do not overlap, come from as many files as there are, and stand in no training file (a
    licence at a file's head often does). Raises ValueError where the files yield fewer.
    """
    shuffled = random.Random(SEED)  # noqa: S311 - a fixed draw, not a secret
    known = "\0".join(file.text for file in corpus.training)
    queues = []
    for file in corpus.held_out:
        pieces = [piece for piece in _pieces(file, tokenizer) if piece["text"] not in known]
        shuffled.shuffle(pieces)
        queues.append(pieces)
    prompts: list[dict[str, str]] = []
    while len(prompts) < count:
        queues = [queue for queue in queues if queue]
        if not queues:
            raise ValueError(f"the held-out files yield {len(prompts)} prompts, not {count}")
        prompts += [queue.pop() for queue in queues]
    return prompts[:count]


def write_prompts(prompts: Iterable[dict[str, str]], file: Path) -> None:
    """Write one JSON object a line."""
    file.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))


def _pieces(file: SourceFile, tokenizer: Tokenizer) -> Iterator[dict[str, str]]:
    """Cut one file into prompts: so many tokens from a line's beginning, then from the next."""
    text, begin = file.text, 0
    while begin < len(text):
        encoded = tokenizer.encode(text[begin : begin + 20 * PROMPT_TOKENS])
        if len(encoded.ids) < PROMPT_TOKENS:
            return
        end = begin + encoded.offsets[PROMPT_TOKENS - 1][1]
        line = text.count("\n", 0, begin) + 1
        yield {"id": f"{file.path}:{line}", "text": text[begin:end], "set": "code"}
        newline = text.find("\n", end)
        if newline < 0:
            return
        begin = newline + 1
