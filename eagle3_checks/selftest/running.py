"""Runs the rows: files and flags in seconds, the rest on the real server on the CPU engine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from eagle3_checks.gate import Gate
from eagle3_checks.reference.defects import Defect, Planted
from eagle3_checks.report.from_gate import diagnosed
from eagle3_checks.rules.base import STATIC_FACTS
from eagle3_checks.rules.registry import all_rules
from eagle3_checks.selftest.row import Row, served_row, static_row
from eagle3_checks.settings import resolve
from eagle3_checks.shipped import shipped

PROFILE = "tiny"
HEALTHY = "as-it-is"
FAMILIES = ("SRV", "WIR", "ACC")
"""Rules that are asked of every server; how fast it is says nothing here."""
UNDER_LOAD = ("SRV004", "SRV005")
"""Rules among them that want speed to have been measured."""
SERVED = {
    "prompts.limit": 16,
    "prompts.max_new_tokens": 64,
    "replay.source": "transformers",
    "parity.prompts": 2,
}
DAMAGE = Path(__file__).resolve().parents[1] / "inside" / "damage"


def static_rows(zoo: Iterable[Planted]) -> Iterator[Row]:
    """Judge the files and flags of each planting."""
    with tempfile.TemporaryDirectory(prefix="eagle3-selftest-") as work:
        for planted in zoo:
            gate = _gate(planted, Path(work), {})
            yield static_row(planted, gate.static_findings(), diagnosed(gate))


def served_rows(zoo: Iterable[Planted], baseline: Path) -> Iterator[Row]:
    """Serve each planting and judge what is seen.

    The healthy pair must come first: defects are held against `baseline`, a folder that its run
    writes a baseline into. Variants must reach the floors; so few prompts cannot show more of them.
    """
    with tempfile.TemporaryDirectory(prefix="eagle3-selftest-") as work:
        for planted in zoo:
            yield _served(planted, Path(work), baseline)


def _served(planted: Planted, work: Path, baseline: Path) -> Row:
    recorded = next(iter(sorted(baseline.glob("*.json"))), None)
    settings = dict(SERVED)
    if isinstance(planted, Defect) or planted.name == HEALTHY:
        settings["baseline.path"] = str(recorded or baseline)
    with _gate(planted, work, settings) as gate:
        static = [rule for rule in all_rules() if set(rule.needs()) <= STATIC_FACTS]
        families = {*FAMILIES, *(code[:3] for code in getattr(planted, "served_codes", ()))}
        asked = [
            rule
            for rule in all_rules()
            if rule.family() in families and rule.code() not in UNDER_LOAD
        ]
        for rule in (*static, *asked):
            gate.findings_of(rule.code())
        gate.complete()
        seen = gate.acceptance.accept_length if gate.has("acceptance") else None
        replay = gate.replayed.acceptance.accept_length if gate.has("replayed") else None
        return served_row(
            planted,
            gate.findings(),
            diagnosed(gate),
            gate.verdict(),
            lengths=(seen.value if seen else None, replay.value if replay else None),
        )


def _gate(planted: Planted, work: Path, settings: dict[str, object]) -> Gate:
    """Plant a copy and make its gate; nothing runs yet."""
    pair = work / planted.name
    planted.plant(shipped("fixtures", "tiny"), pair)
    values: dict[str, object] = {
        **settings,
        **planted.settings,
        "target.path": str(pair / "target"),
        "drafter.path": str(pair / "drafter"),
        "server.sglang": planted.sglang,
    }
    if planted.damage:
        values["server.env"] = {
            "OMP_NUM_THREADS": "1",
            "EAGLE3_DAMAGE": planted.damage,
            "PYTHONPATH": str(DAMAGE),
        }
    return Gate(resolve(PROFILE, values, {}), work / f"{planted.name}-artefacts", keep_going=True)
