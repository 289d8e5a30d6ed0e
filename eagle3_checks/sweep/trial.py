"""One trial: a run of the gate whose result is a file before anyone hears of it."""

from __future__ import annotations

from pathlib import Path

from eagle3_checks.gate import Gate
from eagle3_checks.report.from_gate import gate_result
from eagle3_checks.report.result import write_json
from eagle3_checks.rules.registry import all_rules
from eagle3_checks.settings import resolve
from eagle3_checks.sweep.grid import Trial


def result_file(folder: Path, trial: Trial) -> Path:
    """Return where a trial's result is, or will be: one that is there is whole."""
    return folder / "results" / f"{trial.id}.json"


def run_trial(trial: Trial, folder: Path) -> None:
    """Run the gate and write its result; nothing is run where there is a result already.

    So a trial whose worker died after the last line is not run twice. Raises ProfileError and
    OSError; a server that does not start is a result.
    """
    path = result_file(folder, trial)
    if path.is_file():
        return
    with Gate(resolve(trial.profile, trial.overrides), folder / "logs" / trial.id) as gate:
        for rule in all_rules():
            gate.findings_of(rule.code())
        write_json(gate_result(gate), path)
