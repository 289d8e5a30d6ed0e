"""`eagle3-checks selftest`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagle3_checks.verdict import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagle3_checks.reference.defects import Planted
    from eagle3_checks.selftest.row import Row

TEXT = """\
Plant every known defect in the tiny pair and say what catches it: rules, and the
cause named first. Healthy variants must pass. A warning stands in brackets.
"""
EPILOG = """\
exit codes: 0 all caught and no false alarm, 1 a miss, a false alarm, or too many
wrong causes, 2 usage.
"""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "selftest",
        help="plant every known defect in the tiny pair, and show that it is caught",
        description=TEXT,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--serve",
        action="store_true",
        help="serve the defects that a server starts with, on the CPU engine (an hour of one core)",
    )
    parser.add_argument(
        "-k", metavar="NAME", action="append", default=[], help="only rows with this in their name"
    )
    parser.add_argument("--json", metavar="OUT", type=Path, help="write the rows as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the rows that were asked for, each printed as it is done."""
    from eagle3_checks.reference.defects import DEFECTS  # noqa: PLC0415 - quick --help
    from eagle3_checks.selftest.matrix import ending, line, notes, summarise  # noqa: PLC0415

    # As in the profile: the pair is so small that a second thread costs more than it brings.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    chosen = _chosen(arguments.k, served=arguments.serve)
    if not chosen:
        asked = " or ".join(map(repr, arguments.k))
        print(f"eagle3-checks selftest: no row has {asked} in its name", file=sys.stderr)
        return ExitCode.USAGE
    rows = []
    for row in _rows(chosen, served=arguments.serve):
        rows.append(row)
        print("\n".join((line(row), *notes(row))), flush=True)
    summary = summarise(rows, DEFECTS)
    print("\n".join(("", *ending(summary))))
    if arguments.json:
        from eagle3_checks.report.result import write_text  # noqa: PLC0415

        write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", arguments.json)
    return ExitCode.PASS if summary.good else ExitCode.FAIL


def _chosen(names: list[str], *, served: bool) -> list[Planted]:
    """Return the rows by name; the healthy pair comes first where servers are started."""
    from eagle3_checks.reference.defects import DEFECTS, VARIANTS  # noqa: PLC0415
    from eagle3_checks.selftest.running import HEALTHY  # noqa: PLC0415

    zoo = [p for p in (*VARIANTS.values(), *DEFECTS.values()) if p.served or not served]
    chosen = [p for p in zoo if not names or any(name in p.name for name in names)]
    if served and chosen and chosen[0].name != HEALTHY:
        chosen.insert(0, VARIANTS[HEALTHY])
    return chosen


def _rows(chosen: list[Planted], *, served: bool) -> Iterator[Row]:
    from eagle3_checks.selftest.running import served_rows, static_rows  # noqa: PLC0415

    if not served:
        yield from static_rows(chosen)
        return
    import tempfile  # noqa: PLC0415 - every command reads this module

    with tempfile.TemporaryDirectory(prefix="eagle3-baseline-") as baseline:
        yield from served_rows(chosen, Path(baseline))
