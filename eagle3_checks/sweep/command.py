"""`eagle3-checks sweep`: its arguments, and what runs."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagle3_checks.verdict import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eagle3_checks.profile import Profile
    from eagle3_checks.sweep.grid import Trial
    from eagle3_checks.sweep.pool import Slots
    from eagle3_checks.sweep.table import Row

CORES_A_TRIAL = 2
TEXT = """\
Run the gate for every combination of drafters, steps, topk, draft tokens and
SGLang releases, and name the fastest setting at each concurrency.
"""
EPILOG = """\
exit codes: 0 every trial has a result, 2 usage, 7 some have none. Results are
files in --out: the same command goes on where it was.
"""


def add(commands: Any) -> None:
    """Add the command to the parser's sub-commands."""
    sweep = commands.add_parser(
        "sweep",
        help="run the gate over many drafters and settings, on all free slots",
        description=TEXT,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_to = sweep.add_argument
    add_to("--profile", metavar="FILE|NAME", help="how it is served; `tiny` is built in")
    add_to("--target", metavar="MODEL", help="folder or hub id")
    add_to("--draft", metavar="MODEL", nargs="+", default=[], help="folders or hub ids")
    add_to("--device", choices=("auto", "cuda", "cpu"))
    add_to("--steps", metavar="N[,N]", type=_numbers, default=(), help="draft steps")
    add_to("--topk", metavar="N[,N]", type=_numbers, default=(), help="1 chains, more trees")
    add_to("--draft-tokens", metavar="N[,N]", type=_numbers, default=(), help="of trees")
    add_to("--sglang", metavar="X.Y.Z[,X.Y.Z]", default="", help="releases, installed where needed")
    add_to(
        "--python",
        metavar="X.Y.Z=PATH",
        action="append",
        default=[],
        help="an interpreter that has this release",
    )
    add_to("--environments", metavar="DIR", type=Path, help="where releases are kept")
    add_to("--slots", metavar="N", type=_slots, help="trials at a time (default: two cores each)")
    add_to("--address", metavar="HOST:PORT", default="", help="a Ray cluster's, or `auto`")
    add_to(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("eagle3-artefacts/sweep"),
        help="results and logs (default: %(default)s)",
    )
    add_to("--json", metavar="OUT", type=Path, help="write the table as JSON")
    sweep.set_defaults(run=_sweep)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write whole numbers, as in 1,3,5") from None


def _slots(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: one slot or more")
    return int(text)


def _sweep(arguments: argparse.Namespace) -> int:
    from eagle3_checks.environments import EnvironmentFailedError  # noqa: PLC0415 - quick --help
    from eagle3_checks.measure.prompts import PromptError  # noqa: PLC0415
    from eagle3_checks.settings import ProfileError  # noqa: PLC0415
    from eagle3_checks.sweep.grid import GridError  # noqa: PLC0415
    from eagle3_checks.sweep.pool import SlotError  # noqa: PLC0415

    try:
        return _run(arguments)
    except (GridError, ProfileError, PromptError, SlotError) as error:
        print(f"eagle3-checks sweep: {error}", file=sys.stderr)
        return ExitCode.USAGE
    except EnvironmentFailedError as error:
        print(f"eagle3-checks sweep: {error}", file=sys.stderr)
        return ExitCode.INCONCLUSIVE
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from here", file=sys.stderr)
        return 130


def _run(arguments: argparse.Namespace) -> int:
    from eagle3_checks.report.terminal import terminal_width  # noqa: PLC0415 - quick --help
    from eagle3_checks.settings import resolve  # noqa: PLC0415
    from eagle3_checks.sweep.pool import run_all  # noqa: PLC0415
    from eagle3_checks.sweep.table import lines  # noqa: PLC0415
    from eagle3_checks.sweep.trial import result_file  # noqa: PLC0415

    common = {"target.path": arguments.target, "server.device": arguments.device}
    common = {key: value for key, value in common.items() if value} | {"baseline.path": ""}
    usual = resolve(arguments.profile, common).profile
    planned, left_out = _planned(arguments, usual, common)
    for text in left_out:
        _tell(f"left out  {text}")
    folder: Path = arguments.out.resolve()
    missing = [trial for trial in planned if not result_file(folder, trial).is_file()]
    _tell(f"{len(planned)} trials, {len(planned) - len(missing)} of them have a result already")
    failed: Mapping[str, str] = {}
    if missing:
        failed = run_all(missing, folder, _where(arguments, usual), _told)
    rows = _rows(planned, folder, failed)
    print("\n".join(lines(rows, width=terminal_width() - 1)))
    if arguments.json:
        _write(rows, arguments.json)
    return ExitCode.PASS if all(row.result for row in rows) else ExitCode.INCONCLUSIVE


def _planned(
    arguments: argparse.Namespace, usual: Profile, common: Mapping[str, Any]
) -> tuple[tuple[Trial, ...], tuple[str, ...]]:
    from eagle3_checks.environments import (  # noqa: PLC0415 - quick --help
        Environments,
        default_folder,
        parse_pythons,
    )
    from eagle3_checks.settings import locate, resolve  # noqa: PLC0415
    from eagle3_checks.sweep.grid import Axes, GridError, trials  # noqa: PLC0415

    try:
        given = parse_pythons(arguments.python)
    except ValueError as error:
        raise GridError(str(error)) from None
    environments = Environments(
        folder=(arguments.environments or default_folder()).resolve(),
        cpu=usual.server.device == "cpu",
        given=given,
        tell=_tell,
    )
    releases = [release for release in arguments.sglang.split(",") if release]
    axes = Axes(
        drafters=[locate(drafter, Path.cwd()) for drafter in arguments.draft],
        steps=arguments.steps,
        topk=arguments.topk,
        draft_tokens=arguments.draft_tokens,
        releases={r: environments.get(r).overrides(usual.server.env) for r in releases},
    )
    return trials(axes, arguments.profile, common, resolve)


def _where(arguments: argparse.Namespace, usual: Profile) -> Slots:
    from eagle3_checks.sweep.pool import Slots  # noqa: PLC0415 - quick --help

    cpu = usual.server.device == "cpu"
    count = arguments.slots or max((os.cpu_count() or 1) // CORES_A_TRIAL, 1)
    return Slots(address=arguments.address, count=count, gpus=0 if cpu else usual.server.tp)


def _rows(planned: Sequence[Trial], folder: Path, failed: Mapping[str, str]) -> tuple[Row, ...]:
    import json  # noqa: PLC0415 - quick --help

    from eagle3_checks.sweep.grid import GridError  # noqa: PLC0415
    from eagle3_checks.sweep.table import Row  # noqa: PLC0415
    from eagle3_checks.sweep.trial import result_file  # noqa: PLC0415

    rows = []
    for trial in planned:
        path = result_file(folder, trial)
        try:
            result = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
        except ValueError:
            raise GridError(f"{path}: is no result; remove it, and its trial runs again") from None
        rows.append(Row(trial=trial, result=result, problem=failed.get(trial.id, "")))
    return tuple(rows)


def _write(rows: Sequence[Row], path: Path) -> None:
    from eagle3_checks.report.result import plain, write_json  # noqa: PLC0415 - quick --help
    from eagle3_checks.sweep.table import best  # noqa: PLC0415

    data = {
        "schema_version": 1,
        "trials": [
            {
                "id": row.trial.id,
                "drafter": row.trial.drafter,
                "speculation": row.trial.speculation,
                "sglang": row.trial.sglang,
                "verdict": row.result["verdict"] if row.result else None,
                "tokens_per_second": row.speeds,
                "problem": row.problem,
            }
            for row in rows
        ],
        "best": [
            {
                "concurrency": found.concurrency,
                "trial": found.row.trial.id,
                "tokens_per_second": found.speed,
                "alike": [row.trial.id for row in found.alike],
            }
            for found in best(rows)
        ],
    }
    write_json(plain(data), path)


def _told(trial: Trial, problem: str) -> None:
    _tell(f"{'no result' if problem else 'done':9} {trial.id}" + (f": {problem}" * bool(problem)))


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
