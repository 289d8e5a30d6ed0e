from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.checkpoint import (
    read_draft_config,
    read_manifest,
    read_target_config,
    read_vocab_map,
)
from eagle3_checks.checkpoint.scan import scan
from eagle3_checks.checkpoint.tokenizer import read_tokenizer
from eagle3_checks.contract import contract_for
from eagle3_checks.facts import (
    Acceptance,
    CaptureSeen,
    Corner,
    DraftedSeen,
    ForwardSeen,
    HeadsSeen,
    Interval,
    LoadSeen,
    Looping,
    Parity,
    PoolSeen,
    ServerSeen,
    StatesSeen,
    Stream,
    Throughput,
    TrafficSeen,
    Wiring,
)
from eagle3_checks.profile import Floors, Server, Speculation
from eagle3_checks.rules.base import Facts, run_rule
from eagle3_checks.rules.registry import by_code
from eagle3_checks.verdict import Finding, Judgement, Judgements, Outcome
from tests_cpu.rules.seen import CAPTURE, LOAD, LOOPING, PARITY, forward
from tests_cpu.rules.true_states import TRUE

Judge = Callable[..., tuple[Finding, ...]]


@pytest.fixture
def judge_files(tmp_path: Path, healthy_pair: Callable[..., tuple[Path, Path]]) -> Judge:
    """Return `judge_files(code, version=, serving=, edit=, **pair)`: one rule over a written pair.

    `edit` changes the files, given both folders; `values` reads the weights too.
    """

    def judge(  # noqa: PLR0913 - one argument for each fact
        code: str,
        version: str = "0.5.23",
        speculation: Speculation | None = None,
        *,
        serving: Server | None = None,
        edit: Callable[[Path, Path], object] | None = None,
        values: bool = False,
        **pair: Any,
    ) -> tuple[Finding, ...]:
        count = sum(1 for _ in tmp_path.iterdir())
        target, drafter = healthy_pair(tmp_path / str(count), **pair)
        if edit:
            edit(target, drafter)
        facts = file_facts(target, drafter, version, speculation)
        seen = scan(drafter, facts.manifest, target) if values and facts.manifest else None
        return run_rule(by_code(code), replace(facts, serving=serving, values=seen))

    return judge


def file_facts(
    target: Path, drafter: Path, version: str = "0.5.23", speculation: Speculation | None = None
) -> Facts:
    manifest = read_manifest(drafter)
    return Facts(
        manifest=manifest,
        draft=read_draft_config(drafter),
        vocab=read_vocab_map(drafter, manifest),
        target=read_target_config(target),
        tokenizer=read_tokenizer(target),
        contract=contract_for(version),
        speculation=speculation or Speculation(),
    )


@pytest.fixture(scope="session")
def read_facts() -> Callable[..., Facts]:
    """Return `file_facts(target, drafter, version, speculation)`."""
    return file_facts


@pytest.fixture
def judge_wiring(tmp_path: Path, healthy_pair: Callable[..., tuple[Path, Path]]) -> Judge:
    """Return `judge_wiring(code, forwards=, loads=, captures=, …)`: healthy where left out."""

    def judge(  # noqa: PLR0913 - one argument per fact
        code: str,
        *,
        forwards: tuple[ForwardSeen, ...] | None = None,
        loads: tuple[LoadSeen, ...] = (LOAD,),
        captures: tuple[CaptureSeen, ...] = (CAPTURE,),
        errors: tuple[str, ...] = (),
        algorithm: str = "EAGLE3",
        states: tuple[StatesSeen, ...] = (),
        heads: tuple[HeadsSeen, ...] = (),
        drafted: tuple[DraftedSeen, ...] = (),
        corners: Mapping[str, Corner] | None = None,
        stored: Mapping[str, Corner] | None = None,
        **pair: Any,
    ) -> tuple[Finding, ...]:
        target, drafter = healthy_pair(tmp_path, **pair)
        if forwards is None:
            forwards = (forward("EXTEND"), forward("DECODE", 16), forward("DRAFT_EXTEND_V2"))
        wiring = Wiring(
            sglang="0.5.23",
            loads=loads,
            forwards=forwards,
            captures=captures,
            errors=errors,
            states=states,
            heads=heads,
            drafted=drafted,
            corners=corners or {},
        )
        known = file_facts(target, drafter, speculation=Speculation(algorithm=algorithm))
        facts = replace(known, wiring=wiring, true_states=TRUE, corners=stored)
        return run_rule(by_code(code), facts)

    return judge


@pytest.fixture
def seen_forward() -> Callable[..., ForwardSeen]:
    """Return `forward(mode, width)`: fc runs unless the width is the embedding's, 16."""
    return forward


@pytest.fixture
def seen_load() -> LoadSeen:
    """Return a healthy load."""
    return LOAD


def held(seen: Interval | None, bound: float | None) -> Judgement | None:
    """Judge an interval as one look would."""
    if seen is None or bound is None:
        return None
    outcome = Outcome.REACHED if seen.low >= bound else Outcome.OPEN
    return Judgement(
        outcome=Outcome.MISSED if seen.high < bound else outcome,
        value=seen.value,
        bound=bound,
        interval=seen,
        prompts=80,
        planned=80,
        looks=12,
        verify_steps=19876,
        detectable=0.1,
    )


@pytest.fixture
def judge_acceptance() -> Judge:
    """Return `judge_acceptance(code, length=(value, low, high), floor=, …)`."""

    def judge(
        code: str,
        length: tuple[float, float, float] | None = (2.23, 2.11, 2.35),
        rate: tuple[float, float, float] | None = (0.41, 0.37, 0.45),
        floors: Floors | None = None,
        *,
        judged: bool = True,
        **changes: Any,
    ) -> tuple[Finding, ...]:
        def interval(figures: tuple[float, float, float] | None) -> Interval | None:
            if figures is None:
                return None
            value, low, high = figures
            return Interval(value=value, low=low, high=high, level=0.95, n=80)

        values: dict[str, Any] = {
            "prompts": 80,
            "verify_steps": 19876,
            "correct_drafts": 24447,
            "proposed_drafts": 59628,
            "accept_length": interval(length),
            "accept_rate": interval(rate),
            "per_position": (0.62, 0.38, 0.23),
            "failed_requests": 0,
        }
        acceptance = Acceptance(**{**values, **changes})
        floors = floors or Floors()
        facts = Facts(
            acceptance=acceptance,
            floors=floors,
            judgements=Judgements(
                error=0.05,
                accept_length=held(acceptance.accept_length, floors.accept_length),
                accept_rate=held(acceptance.accept_rate, floors.accept_rate),
            )
            if judged
            else Judgements(error=0.05),
            speculation=Speculation(),
        )
        return run_rule(by_code(code), facts)

    return judge


@pytest.fixture
def judge_speed() -> Judge:
    """Return `judge_speed(code, {concurrency: tok/s}, floors, failed=)`."""

    def judge(
        code: str,
        speeds: Mapping[int, float],
        floors: Mapping[str, float] | None = None,
        failed: int = 0,
        hardware: str = "NVIDIA H200",
        **stream: Any,
    ) -> tuple[Finding, ...]:
        streams = tuple(
            Stream(
                concurrency=concurrency,
                requests=16,
                failed=failed,
                output_tokens=int(speed * 10),
                seconds=10.0,
                tokens_per_second=speed,
                **stream,
            )
            for concurrency, speed in speeds.items()
        )
        facts = Facts(
            throughput=Throughput(streams=streams),
            floors=Floors(tokens_per_second=floors or {}),
            hardware=hardware,
        )
        return run_rule(by_code(code), facts)

    return judge


@pytest.fixture
def judge_parity() -> Judge:
    """Return `judge_parity(code, scored=, kinds=, looping=, …)`: healthy where left out."""

    def judge(code: str, **changes: Any) -> tuple[Finding, ...]:
        loops = {k: v for k, v in changes.items() if k in Looping.__dataclass_fields__}
        seen = {k: v for k, v in changes.items() if k in Parity.__dataclass_fields__}
        facts = Facts(
            parity=replace(PARITY, **seen),
            looping=replace(LOOPING, **loops),
            against_plain=changes.get("against_plain", PARITY.scored),
        )
        return run_rule(by_code(code), facts)

    return judge


@pytest.fixture
def judge_server() -> Judge:
    """Return `judge_server(code, info=, environment=, launched=, pool=, traffic=)`."""

    def judge(  # noqa: PLR0913 - one argument for each fact
        code: str,
        info: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        launched: bool = True,
        pool: PoolSeen | None = None,
        traffic: TrafficSeen | None = None,
    ) -> tuple[Finding, ...]:
        server = ServerSeen(
            url="http://127.0.0.1:1",
            launched=launched,
            sglang="0.5.23",
            info=info or {},
            environment=environment or {},
            start_seconds=12.3 if launched else None,
        )
        facts = Facts(server=server, speculation=Speculation(), pool=pool, traffic=traffic)
        return run_rule(by_code(code), facts)

    return judge
