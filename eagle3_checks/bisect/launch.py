"""One launch: the gate's stages that a criterion needs, and what they gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from eagle3_checks.bisect.criterion import Criterion
from eagle3_checks.bisect.readings import Counts, Reading
from eagle3_checks.facts import Throughput
from eagle3_checks.gate import SERVER_ERRORS, Gate
from eagle3_checks.measure.prompts import Prompt, PromptSet, load_prompts
from eagle3_checks.measure.throughput import measure_throughput
from eagle3_checks.measuring import StageBlocked
from eagle3_checks.profile import Resolved
from eagle3_checks.verdict import Status

LONGER = 4
"""Times as many requests where speed is too noisy; of prompts, all there are are sent."""
_GRAVEST = (Status.FAIL, Status.INCONCLUSIVE, Status.SKIP, Status.PASS)

Enough = Callable[[Reading], bool]
"""Whether a reading settles the question, so that nothing more need be sent."""


def launch(
    resolved: Resolved, criterion: Criterion, artefacts: Path, enough: Enough = lambda _: True
) -> Reading:
    """Serve one point and read it; nothing is served where files alone decide.

    What the profile asks for is sent, and where that is not enough, all there is, to the same
    server. Files with errors are served all the same: the question is about the figure. A server
    that does not start, dies or fails a request gives a reading without a figure, and says why.
    """
    with Gate(resolved, artefacts, keep_going=True) as gate:
        errors = tuple(sorted({f.code for f in gate.static_findings() if f.is_error}))
        try:
            reading = _read(gate, criterion, enough)
        except (StageBlocked, *SERVER_ERRORS) as error:
            reading = Reading(trouble=str(error).partition("\n")[0])
        return replace(reading, errors=errors, launched=not criterion.static)


def _read(gate: Gate, criterion: Criterion, enough: Enough) -> Reading:
    if criterion.kind == "rule":
        return _rule(gate, criterion)
    if criterion.stage == "acceptance":
        reading = _acceptance(gate)
        if reading.trouble or reading.whole or enough(reading):
            return reading
        return _all_prompts(gate, reading)
    version = gate.server.sglang or ""
    if criterion.stage == "compared":  # the server has ended with the comparison
        return _speed(gate.compared, version)
    reading = replace(_speed(gate.throughput, version), whole=False)
    if reading.trouble or enough(reading):
        return reading
    load = gate.measuring.load
    more = replace(load.wanted, requests=LONGER * load.wanted.requests)
    names = gate.measuring.server.names
    return _speed(measure_throughput(gate.client, replace(load, wanted=more), names), version)


def _acceptance(gate: Gate) -> Reading:
    seen = gate.acceptance
    failed = f"{seen.failed_requests} requests failed" if seen.failed_requests else ""
    return Reading(
        sglang=gate.server.sglang or "",
        counts=tuple(Counts.of(sample) for sample in gate.samples),
        whole=not _left(gate),
        trouble=seen.missing or failed or next(iter(seen.contradictions), ""),
    )


def _all_prompts(gate: Gate, reading: Reading) -> Reading:
    """Send the prompts that the profile leaves out, too."""
    rest = PromptSet(prompts=_left(gate), sha256="")
    measured = replace(gate.measuring, prompts=rest).measured
    lost = f"{len(measured.failures)} requests failed" if measured.failures else ""
    return replace(
        reading,
        counts=(*reading.counts, *(Counts.of(sample) for sample in measured.samples)),
        whole=True,
        trouble=lost or next(iter(measured.acceptance.contradictions), ""),
    )


def _left(gate: Gate) -> tuple[Prompt, ...]:
    sent = {(p.set, p.id) for p in gate.prompts.prompts}
    everything = load_prompts(replace(gate.profile.prompts, limit=0)).prompts
    return tuple(p for p in everything if (p.set, p.id) not in sent)


def _speed(measured: Throughput, version: str) -> Reading:
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
