"""The result of a gate run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eagle3_checks.diagnosis import Evidence, Subject, diagnose
from eagle3_checks.facts import Wiring
from eagle3_checks.gate import Gate
from eagle3_checks.report.result import Result, build_result, plain, subject_of
from eagle3_checks.verdict import Cause


def gate_result(gate: Gate, *, reproduce: str = "") -> Result:
    """Gather what the gate has computed so far; nothing is started for it."""
    profile = gate.profile
    server = gate.server if gate.has("server") else None
    acceptance, throughput, wiring = gate.measurements()
    measurements: dict[str, Any] = {
        "wiring": _short(wiring) if wiring else None,
        "judgements": gate.judgements if gate.has("judgements") else None,
        **_baseline(gate),
        "acceptance": acceptance,
        "replayed": gate.replayed if gate.has("replayed") else None,
        "not_replayed": gate.not_replayed(),
        "trials": gate.trials if gate.has("trials") else None,
        "throughput": throughput,
        "server": _server(gate),
        "parity": gate.parity if gate.has("parity") else None,
        "against_plain": gate.against_plain if gate.has("against_plain") else None,
        "looping": gate.looping if gate.has("looping") else None,
        "stage_seconds": gate.stage_seconds,
        "prompts_sha256": gate.prompts.sha256 if gate.has("prompts") else None,
        "blocked": gate.blocked_reason(),
        "failed_requests": list(gate.failures),
    }
    environment: dict[str, Any] = {
        "server_environment": server.environment if server else {},
        "server_command": list(server.command) if server else [],
        "server_log": server.log if server else None,
        "hardware": gate.hardware if server else None,
    }
    sglang = server.sglang if server else None
    if sglang is None and gate.has("contract"):
        sglang = gate.contract.version
    subject = {
        "target": profile.target.path,
        "drafter": profile.drafter.path,
        "sglang": sglang,
        "hashes": {"drafter": gate.files.drafter_hash},
    }
    return build_result(
        verdict=gate.verdict(),
        findings=gate.findings(),
        subject=subject,
        measurements={key: plain(value) for key, value in measurements.items() if value},
        environment=environment,
        resolved=gate.resolved,
        reproduce=reproduce,
        causes=diagnosed(gate, reproduce),
    )


def diagnosed(gate: Gate, reproduce: str = "") -> tuple[Cause, ...]:
    """Return the causes of what the gate has found so far."""
    profile = gate.profile
    subject = {"target": profile.target.path, "drafter": profile.drafter.path}
    return diagnose(evidence_of(gate, subject_of(subject, reproduce)))


def evidence_of(gate: Gate, subject: Subject) -> Evidence:
    """Gather what the gate has computed so far for a diagnosis; nothing is started for it."""
    acceptance, _, wiring = gate.measurements()
    return Evidence(
        findings=gate.findings(),
        acceptance=acceptance,
        wiring=wiring,
        replayed=gate.replayed if gate.has("replayed") else None,
        trials=gate.trials if gate.has("trials") else None,
        floor=_missed(gate),
        subject=subject,
    )


def _server(gate: Gate) -> dict[str, Any]:
    """Return what was seen of the server itself while it was measured."""
    seen = {
        "peak_resident_bytes": gate.watch.peak_memory if gate.has("watch") else None,
        "pool": gate.pool if gate.has("pool") else None,
        "traffic": gate.traffic if gate.has("traffic") else None,
    }
    return {key: plain(value) for key, value in seen.items() if value is not None}


def _short(wiring: Wiring) -> Wiring:
    """Leave out the numbers that only rules compare."""
    states = tuple(
        replace(seen, states=tuple(replace(digest, rows=()) for digest in seen.states))
        for seen in wiring.states
    )
    return replace(wiring, states=states, corners={})


def _baseline(gate: Gate) -> dict[str, Any]:
    """Return the baseline and the runs before this one, where a baseline was asked for."""
    if not gate.has("baseline"):
        return {}
    return {"baseline": gate.baseline, "history": list(gate.measuring.history)}


def _missed(gate: Gate) -> float | None:
    """Return the accept length that was asked for and not reached, the higher of two."""
    missed = {f.code for f in gate.findings() if f.is_error}
    wanted = []
    if "ACC001" in missed:
        wanted.append(gate.floors.accept_length)
    if "ACC005" in missed and gate.has("baseline") and gate.baseline.accept_length:
        wanted.append(gate.baseline.accept_length * (1 - gate.baseline.margin))
    return max((w for w in wanted if w), default=gate.floors.accept_length)
