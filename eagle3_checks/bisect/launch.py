"""One launch: the gate's stages that a criterion needs, and what they gave."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from eagle3_checks.bisect.criterion import Criterion
from eagle3_checks.bisect.readings import Counts, Reading
from eagle3_checks.facts import Throughput
from eagle3_checks.gate import SERVER_ERRORS, Gate
from eagle3_checks.measuring import StageBlocked
from eagle3_checks.profile import Resolved
from eagle3_checks.verdict import Status

_GRAVEST = (Status.FAIL, Status.INCONCLUSIVE, Status.SKIP, Status.PASS)


def launch(resolved: Resolved, criterion: Criterion, artefacts: Path) -> Reading:
    """Serve one point and read it; nothing is served where files alone decide.

    Files with errors are served all the same: the question is about the figure. A server that
    does not start, dies or fails a request gives a reading without a figure, and says why.
    """
    with Gate(resolved, artefacts, keep_going=True) as gate:
        errors = tuple(sorted({f.code for f in gate.static_findings() if f.is_error}))
        read = _rule if criterion.kind == "rule" else _figures
        try:
            reading = read(gate, criterion)
        except (StageBlocked, *SERVER_ERRORS) as error:
            reading = Reading(trouble=str(error).partition("\n")[0])
        return replace(reading, errors=errors, launched=gate.has("running") or not criterion.static)


def _figures(gate: Gate, criterion: Criterion) -> Reading:
    if criterion.stage == "acceptance":
        seen = gate.acceptance
        failed = f"{seen.failed_requests} requests failed" if seen.failed_requests else ""
        return Reading(
            sglang=gate.server.sglang or "",
            counts=tuple(Counts.of(sample) for sample in gate.samples),
            planned=seen.planned,
            trouble=seen.missing or failed or next(iter(seen.contradictions), ""),
        )
    version = gate.server.sglang or ""
    measured: Throughput = gate.compared if criterion.stage == "compared" else gate.throughput
    lost = sum(stream.failed for stream in measured.streams)
    return Reading(
        sglang=version,
        speeds={str(s.concurrency): s.interval for s in measured.streams if s.interval},
        speed_ups={str(s.concurrency): s.ratio for s in measured.speed_ups},
        trouble=f"{lost} requests failed" if lost else "",
    )


def _rule(gate: Gate, criterion: Criterion) -> Reading:
    """Let one rule be judged; where it finds several problems, the gravest counts."""
    findings = gate.findings_of(criterion.code)
    ends = {f.status for f in findings}
    status = next(s for s in _GRAVEST if s in ends)
    told = next(f.message for f in findings if f.status is status)
    undecided = status in (Status.SKIP, Status.INCONCLUSIVE)
    served = gate.server.sglang if gate.has("server") else gate.contract.version
    return Reading(
        sglang=served or "",
        statuses={criterion.code: status.value},
        trouble=told.partition("\n")[0] if undecided else "",
    )
