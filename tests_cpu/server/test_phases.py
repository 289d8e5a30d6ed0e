from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from eagle3_checks.profile import Profile
from eagle3_checks.server import launch
from eagle3_checks.server.estimate import expected
from eagle3_checks.server.phases import Phase, PhaseReader, last_phase

LOGS = Path(__file__).parent / "logs"
BEFORE_0_5_20 = """\
[2025-10-16 09:05:01] server_args=ServerArgs(model_path='/models/target', tp_size=2)
[2025-10-16 09:05:11 TP1] Init torch distributed begin.
[2025-10-16 09:05:12 TP0] Init torch distributed begin.
[2025-10-16 09:05:13 TP0] Init torch distributed ends. mem usage=1.02 GB
[2025-10-16 09:05:14 TP0] Load weight begin. avail mem=78.22 GB
[2025-10-16 09:05:14 TP1] Load weight begin. avail mem=78.22 GB
[2025-10-16 09:06:20 TP0] Load weight end. type=LlamaForCausalLM, avail mem=63.11 GB.
[2025-10-16 09:06:22 TP0] KV Cache is allocated. #tokens: 2795207, K size: 53.31 GB
[2025-10-16 09:06:22 TP0] Memory pool end. avail mem=11.87 GB
[2025-10-16 09:06:23 TP0] Capture cuda graph begin. This can take up to several minutes.
[2025-10-16 09:06:40 TP0] Capture cuda graph end. Time elapsed: 17.21 s.
[2025-10-16 09:06:41 TP0] Load weight begin. avail mem=10.02 GB
[2025-10-16 09:06:42 TP0] KV Cache is allocated. #tokens: 2795207, K size: 1.31 GB
[2025-10-16 09:06:43 TP0] Capture draft cuda graph begin. This can take up to several minutes.
""".splitlines()


def healthy() -> list[str]:
    return (LOGS / "healthy.log").read_text(encoding="utf-8").splitlines()


def test_a_healthy_start_passes_every_phase_but_capture_on_a_cpu() -> None:
    log = healthy()
    seen = [last_phase(log[:n]) for n in range(len(log) + 1)]
    assert list(dict.fromkeys(seen)) == [p for p in Phase if p is not Phase.GRAPH_CAPTURE]
    assert seen == sorted(seen)


def test_earlier_releases_load_the_drafter_after_the_target_s_graphs() -> None:
    log = BEFORE_0_5_20
    seen = [last_phase(log[:n]) for n in range(len(log) + 1)]
    assert list(dict.fromkeys(seen)) == [
        Phase.LAUNCHED,
        Phase.ARGUMENTS,
        Phase.DISTRIBUTED,
        Phase.TARGET_WEIGHTS,
        Phase.MEMORY_POOL,
        Phase.GRAPH_CAPTURE,
        Phase.DRAFT_WEIGHTS,
    ]
    assert last_phase(log) is Phase.GRAPH_CAPTURE


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("not-installed", Phase.LAUNCHED),
        ("fc-shape", Phase.WARM_UP),
        ("attention-backend", Phase.MEMORY_POOL),
        ("out-of-memory", Phase.GRAPH_CAPTURE),
        ("port-in-use", Phase.HTTP),
    ],
)
def test_where_failed_starts_ended(name: str, phase: Phase) -> None:
    log = (LOGS / f"{name}.log").read_text(encoding="utf-8").splitlines()
    assert last_phase(log) is phase


def test_phases_are_told_in_words() -> None:
    assert str(Phase.DRAFT_WEIGHTS) == "loading the drafter's weights"
    assert len({str(phase) for phase in Phase}) == len(Phase)


def test_requests_after_readiness_change_nothing() -> None:
    log = [*healthy(), 'INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 200 OK']
    assert last_phase(log) is Phase.READY


def test_the_shards_of_a_load_are_counted() -> None:
    reader = PhaseReader()
    reader.take("[2026-12-01 04:47:49 TP0] Load weight begin. avail mem=78.41 GB")
    assert str(reader) == "loading the target's weights"
    reader.take("Loading safetensors checkpoint shards:   3% Completed | 2/62 [00:04<02:10]")
    assert str(reader) == "loading the target's weights, 2 of 62 shards"
    reader.take(
        "shards:  5% | 3/62 [00:01<00:09]\rMulti-thread loading shards:  6% | 4/62 [00:02<]"
    )
    assert str(reader) == "loading the target's weights, 4 of 62 shards"
    reader.take("[2026-12-01 04:47:50 TP0] Load weight begin. avail mem=70.00 GB")
    assert str(reader) == "loading the drafter's weights"


def test_a_launch_tells_how_far_it_is(
    stub_profile: Callable[..., Profile], artefacts: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text("[2026-12-01 04:47:49] Load weight begin. avail mem=19.63 GB\n")
    told: list[tuple[str, float]] = []
    profile = stub_profile("--log", str(log), "--warming", "3")
    with launch(profile, artefacts, device="cpu", tell=lambda *seen: told.append(seen)):
        pass
    assert told[-1][0] in ("loading the target's weights", "HTTP server up")
    assert [seconds for _, seconds in told] == sorted(seconds for _, seconds in told)
    assert expected(profile) is not None
