"""`eagle3-checks compare`: its arguments, and what runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from eagle3_checks.verdict import ExitCode

TEXT = """\
Compare two results of `gate --json`: what differs in drafter, versions, flags,
hardware and prompts, what changed beyond its interval, and what explains it.
"""
EPILOG = """\
exit codes: 0 no figure changed, 1 one did, 2 usage, 7 no figure is in both.
"""


def add(commands: Any) -> None:
    """Add the command to the parser's sub-commands."""
    command = commands.add_parser(
        "compare",
        help="compare two results of the gate, and say what explains the change",
        description=TEXT,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("first", metavar="A.json", type=Path)
    command.add_argument("second", metavar="B.json", type=Path)
    command.add_argument("--json", metavar="OUT", type=Path, help="write the comparison as JSON")
    command.set_defaults(run=_compare)


def _compare(arguments: argparse.Namespace) -> int:
    from eagle3_checks.compare.explaining import compare  # noqa: PLC0415 - quick --help
    from eagle3_checks.compare.results import ResultError, read_result  # noqa: PLC0415
    from eagle3_checks.compare.table import lines  # noqa: PLC0415
    from eagle3_checks.report.result import plain, write_json  # noqa: PLC0415
    from eagle3_checks.report.terminal import terminal_width  # noqa: PLC0415

    try:
        found = compare(read_result(arguments.first), read_result(arguments.second))
        shown = list(lines(found, width=terminal_width() - 1))
    except ResultError as error:
        print(f"eagle3-checks compare: {error}", file=sys.stderr)
        return ExitCode.USAGE
    except (LookupError, TypeError, AttributeError, ValueError):
        both = f"{arguments.first} or {arguments.second}"
        print(f"eagle3-checks compare: {both} is no whole result of the gate", file=sys.stderr)
        return ExitCode.USAGE
    print("\n".join(shown))
    if arguments.json:
        parts = ("changes", "differences", "explanations")
        data = {"schema_version": 1, **{part: getattr(found, part) for part in parts}}
        write_json(plain(data), arguments.json)
    if not found.changes:
        return ExitCode.INCONCLUSIVE
    return ExitCode.FAIL if any(change.changed for change in found.changes) else ExitCode.PASS
