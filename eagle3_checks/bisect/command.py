"""`eagle3-checks bisect`: its arguments, and what runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagle3_checks.verdict import ExitCode

if TYPE_CHECKING:
    from eagle3_checks.bisect.points import Point
    from eagle3_checks.bisect.run import Launch, Outcome, Resolve
    from eagle3_checks.profile import Resolved

EPILOG = """\
exit codes: 0 one is named, 2 usage, 7 none can be named (a range, ends alike,
no server). What was measured is kept in --artefacts: the same command goes on.
"""
CHECKPOINTS_TEXT = """\
Find the first drafter of an ordered list that is worse: the ends are measured
first, then the middle, and what is blamed is measured twice.
"""
SGLANG_TEXT = """\
Find the first SGLang release that is worse for a drafter: by its files for
every release, which costs nothing, then served.
"""
KINDS = "accept-length, accept-rate, position:N, tok/s:STREAMS, speed-up:STREAMS, a rule's code"


def add(commands: Any) -> None:
    """Add the command to the parser's sub-commands."""
    bisect = commands.add_parser(
        "bisect", help="find the first checkpoint or SGLang version that made it worse"
    )
    kinds = bisect.add_subparsers(title="what to search", metavar="WHAT", required=True)
    _add_checkpoints(kinds)
    _add_sglang(kinds)


def _add_checkpoints(kinds: Any) -> None:
    command = kinds.add_parser(
        "checkpoints",
        help="over an ordered list of drafters",
        description=CHECKPOINTS_TEXT,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "drafters",
        nargs="+",
        metavar="DRAFTER",
        help="folders, patterns ('out/epoch-*'), or hub ids org/name@revision, oldest first",
    )
    command.add_argument("--as-given", action="store_true", help="keep the order of a sorted list")
    add_common(command)
    command.set_defaults(run=_checkpoints)


def add_common(command: argparse.ArgumentParser) -> None:
    """Add what every bisect takes."""
    command.add_argument(
        "--profile", metavar="FILE|NAME", help="how it is served; `tiny` is built in"
    )
    command.add_argument("--target", metavar="MODEL", help="folder or hub id")
    command.add_argument("--device", choices=("auto", "cuda", "cpu"))
    command.add_argument("--by", default="accept-length", metavar="WHAT", help=f"{KINDS}")
    command.add_argument(
        "--threshold", type=float, metavar="X", help="below it is bad (default: between the ends)"
    )
    command.add_argument(
        "--artefacts", metavar="DIR", type=Path, default=Path("eagle3-artefacts/bisect")
    )
    command.add_argument("--json", metavar="OUT", type=Path, help="write the result as JSON")
    command.add_argument("--html", metavar="OUT", type=Path, help="write table and plot as a page")


def _add_sglang(kinds: Any) -> None:
    command = kinds.add_parser(
        "sglang",
        help="over SGLang releases",
        description=SGLANG_TEXT,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "versions", nargs="+", metavar="X.Y.Z", help="two ends, or a list of three and more"
    )
    add_common(command)
    command.add_argument("--draft", metavar="MODEL", help="folder or hub id")
    command.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="X.Y.Z=PATH",
        help="an interpreter that has this release; others are installed by pip and kept",
    )
    command.add_argument(
        "--environments", metavar="DIR", type=Path, help="where they are kept (default: the cache)"
    )
    command.add_argument("--files-only", action="store_true", help="serve nothing")
    command.set_defaults(run=_sglang)


def _checkpoints(arguments: argparse.Namespace) -> int:
    from eagle3_checks.bisect.points import checkpoints  # noqa: PLC0415 - quick --help

    def run() -> int:
        points = checkpoints(arguments.drafters, as_given=arguments.as_given)
        return search_points(points, arguments)

    return guarded("bisect checkpoints", run)


def _sglang(arguments: argparse.Namespace) -> int:
    from eagle3_checks.bisect.releases import search_releases  # noqa: PLC0415 - quick --help

    return guarded("bisect sglang", lambda: search_releases(arguments))


def guarded(front: str, run: Callable[[], int]) -> int:
    """Run, and tell what the user has to mend in one line; returns the exit code."""
    from eagle3_checks.bisect.criterion import CriterionError  # noqa: PLC0415 - quick --help
    from eagle3_checks.bisect.points import PointError  # noqa: PLC0415
    from eagle3_checks.environments import EnvironmentFailedError  # noqa: PLC0415
    from eagle3_checks.measure.prompts import PromptError  # noqa: PLC0415
    from eagle3_checks.report.html import MissingExtraError  # noqa: PLC0415
    from eagle3_checks.settings import ProfileError  # noqa: PLC0415

    usage = (CriterionError, PointError, PromptError, ProfileError, MissingExtraError)
    try:
        return run()
    except usage as error:
        print(f"eagle3-checks {front}: {error}", file=sys.stderr)
        return ExitCode.USAGE
    except EnvironmentFailedError as error:
        print(f"eagle3-checks {front}: {error}", file=sys.stderr)
        return ExitCode.INCONCLUSIVE
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from here", file=sys.stderr)
        return 130


def search_points(
    points: Sequence[Point],
    arguments: argparse.Namespace,
    *,
    resolve: Resolve | None = None,
    launcher: Launch | None = None,
    remarks: Callable[[Outcome], Iterable[tuple[str, str]]] = lambda _: (),
) -> int:
    """Search, print and write; returns the exit code. `remarks` are said below the answer."""
    from eagle3_checks.bisect.criterion import parse  # noqa: PLC0415 - quick --help
    from eagle3_checks.bisect.launch import launch  # noqa: PLC0415
    from eagle3_checks.bisect.run import Bisect  # noqa: PLC0415
    from eagle3_checks.bisect.table import labelled, lines  # noqa: PLC0415
    from eagle3_checks.report.html import require_jinja  # noqa: PLC0415
    from eagle3_checks.report.terminal import terminal_width  # noqa: PLC0415

    if arguments.html:
        require_jinja()
    outcome = Bisect(
        points,
        parse(arguments.by),
        resolve or resolver(arguments),
        arguments.artefacts,
        threshold=arguments.threshold,
        tell=tell,
        launcher=launcher or launch,
    ).run()
    width = terminal_width() - 1
    print("\n".join(lines(outcome, width=width)))
    for line in labelled(remarks(outcome), width):
        print(line)
    _write(outcome, arguments)
    exact = outcome.boundary is not None and outcome.boundary.exact
    return ExitCode.PASS if exact else ExitCode.INCONCLUSIVE


def tell(line: str) -> None:
    """Say what has just been done, beside the result."""
    print(line, file=sys.stderr, flush=True)


def resolver(arguments: argparse.Namespace) -> Resolve:
    """Return the function that resolves a point's profile; it raises ProfileError."""
    from eagle3_checks.bisect.criterion import parse  # noqa: PLC0415 - quick --help
    from eagle3_checks.bisect.points import PointError  # noqa: PLC0415
    from eagle3_checks.settings import resolve  # noqa: PLC0415

    criterion = parse(arguments.by)
    given: dict[str, Any] = {
        "target.path": arguments.target,
        "drafter.path": getattr(arguments, "draft", None),
        "server.device": arguments.device,
        "baseline.path": "",
    }
    if criterion.kind == "rule":
        given["prompts.limit"] = 0  # it ends as soon as its verdict is certain
    else:
        given["judging.sequential"] = False
    if criterion.stage in ("throughput", "compared"):
        given["speed.concurrencies"] = (criterion.number,)
        given |= {"floors.tokens_per_second": {}, "floors.speed_up": {}}
    if criterion.stage == "compared":
        given["speed.compare_base"] = "launch"

    def resolved(point: Point) -> Resolved:
        found = resolve(arguments.profile, {**given, **point.overrides})
        if found.profile.server.url:
            url = found.profile.server.url
            raise PointError(f"server.url is set ({url}): a bisect starts its own servers")
        return found

    return resolved


def _write(outcome: Outcome, arguments: argparse.Namespace) -> None:
    from eagle3_checks.bisect.document import document, write_page  # noqa: PLC0415 - quick --help
    from eagle3_checks.report.result import write_json  # noqa: PLC0415

    if arguments.json:
        write_json(document(outcome), arguments.json)
    if arguments.html:
        write_page(outcome, arguments.html)
