"""Greedy output with speculation is greedy output without, on the CPU kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from eagle3_checks.measure.client import Client, send_all
from eagle3_checks.measure.prompts import Prompt, load_prompts
from eagle3_checks.profile import Model, Profile, Prompts, Speculation
from eagle3_checks.server.open import open_server
from eagle3_checks.settings import resolve

NEW_TOKENS = 48
PROMPTS = load_prompts(Prompts(sets=("heldout-code",), limit=32)).prompts
TINY = resolve("tiny", environ={}).profile
FORMS = {"chain": Speculation(), "tree": Speculation(topk=4, draft_tokens=8)}


def texts(client: Client, concurrency: int, prompts: Sequence[Prompt] = PROMPTS) -> list[str]:
    answers, failures = send_all(
        lambda p: client.generate(p, max_new_tokens=NEW_TOKENS, ignore_eos=True),
        prompts,
        concurrency=concurrency,
    )
    assert failures == []
    return [answer.text for answer in answers]


def serve_and_read(profile: Profile, artefacts: Path, *concurrencies: int) -> list[list[str]]:
    with open_server(profile, artefacts) as server:
        client = Client(server.url)
        try:
            return [texts(client, c) for c in concurrencies]
        finally:
            client.close()


def test_speculation_changes_no_token(tmp_path: Path) -> None:
    assert len(PROMPTS) == 32
    without = dataclasses.replace(TINY, drafter=Model())
    [plain] = serve_and_read(without, tmp_path / "plain", 8)
    assert len(set(plain)) > 16
    for name, speculation in FORMS.items():
        profile = dataclasses.replace(TINY, speculation=speculation)
        alone, together = serve_and_read(profile, tmp_path / name, 1, 8)
        assert alone == plain, f"{name} at concurrency 1"
        assert together == plain, f"{name} at concurrency 8"
