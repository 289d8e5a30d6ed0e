"""A bisect over SGLang releases: what the files say for each first, then served."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from eagle3_checks.bisect.command import resolver, search_points, tell
from eagle3_checks.bisect.criterion import Criterion, parse
from eagle3_checks.bisect.document import by_files
from eagle3_checks.bisect.launch import Enough, launch
from eagle3_checks.bisect.points import Point, PointError
from eagle3_checks.bisect.readings import Reading
from eagle3_checks.bisect.run import Outcome, Resolve
from eagle3_checks.bisect.table import labelled
from eagle3_checks.bisect.versions import (
    Errors,
    changes,
    errors_by_version,
    first_change,
    spans,
    versions,
)
from eagle3_checks.environments import Environments, default_folder, parse_pythons
from eagle3_checks.gate import Gate
from eagle3_checks.profile import Resolved
from eagle3_checks.report.result import write_json
from eagle3_checks.verdict import ExitCode


def search_releases(arguments: argparse.Namespace) -> int:
    """Judge the files for every release, serve where that leaves a question; the exit code."""
    listed = versions(arguments.versions)
    plain = resolver(arguments)
    points = {v: Point(name=v, overrides={"server.sglang": v}) for v in listed}
    first = plain(points[listed[0]]).profile
    if not first.drafter.path:
        raise PointError("no drafter is given: --draft MODEL, or one in the profile (drafter.path)")
    if parse(arguments.by).static:
        return search_points(list(points.values()), arguments, remarks=_contract(plain))
    errors = errors_by_version(listed, lambda v: plain(points[v]))
    for line in labelled(_files(errors)):
        print(line)
    turn = first_change(errors)
    environments = _environments(arguments, cpu=first.server.device == "cpu")
    asked = turn or listed
    served = [v for v in asked if environments.servable(v)]
    left = [v for v in asked if v not in served]
    if arguments.files_only or len(served) < 2 or (turn and left):  # noqa: PLR2004 - two ends
        return _by_files(errors, left, plain, arguments)
    if left:
        for line in labelled([("not served", f"{left[0]} to {left[-1]}: {_WHY}")]):
            print(line)
    print()

    @functools.cache
    def resolve(name: str) -> Resolved:
        found = environments.get(name).overrides(plain(points[name]).profile.server.env)
        return plain(Point(name=name, overrides=found))

    return search_points(
        [points[v] for v in served],
        arguments,
        resolve=lambda point: resolve(point.name),
        launcher=_checked,
        remarks=_contract(plain),
    )


_WHY = "the CPU engine serves 0.5.20 and later over this environment; --python gives an older one"


def _environments(arguments: argparse.Namespace, *, cpu: bool) -> Environments:
    try:
        given = parse_pythons(arguments.python)
    except ValueError as error:
        raise PointError(str(error)) from None
    folder = arguments.environments or default_folder()
    return Environments(folder=folder.resolve(), cpu=cpu, given=given, tell=tell)


def _checked(resolved: Resolved, criterion: Criterion, artefacts: Path, enough: Enough) -> Reading:
    """Launch, and take nothing from a server of another release than the one that was meant."""
    reading = launch(resolved, criterion, artefacts, enough)
    wanted = resolved.profile.server.sglang
    if reading.sglang in ("", wanted):
        return reading
    said = f"the server says that it is SGLang {reading.sglang}, not {wanted}"
    return Reading(trouble=said, errors=reading.errors)


def _files(errors: Mapping[str, Errors]) -> Iterator[tuple[str, str]]:
    for begin, end, codes in spans(errors):
        where = begin if begin == end else f"{begin} to {end}"
        yield "files", f"{where}: {', '.join(codes) or 'no errors'}"


def _by_files(
    errors: Mapping[str, Errors], left: list[str], plain: Resolve, arguments: argparse.Namespace
) -> int:
    """Answer from the files alone, and say so."""
    turn = first_change(errors)
    why = f"{', '.join(left)} cannot be served here: {_WHY}" if left else "as was asked"
    if turn is None:
        rows = [("no answer", "the files are judged alike by both ends"), ("not served", why)]
    else:
        before, after = turn
        rows = [("changes at", f"{after}; {before} is the last one before, by the files alone")]
        rows += [("not served", why), *_changed(before, after, plain)]
    print()
    for line in labelled(rows):
        print(line)
    if arguments.json:
        write_json(by_files(errors, turn), arguments.json)
    return ExitCode.PASS if turn else ExitCode.INCONCLUSIVE


def _contract(plain: Resolve) -> Callable[[Outcome], list[tuple[str, str]]]:
    """Return what says how the contract changed at the boundary that was found."""

    def remarks(outcome: Outcome) -> list[tuple[str, str]]:
        found = outcome.boundary
        if found is None or not found.confirmed:
            return []
        names = [point.name for point in outcome.points]
        return _changed(names[found.before], names[found.after], plain)

    return remarks


def _changed(before: str, after: str, plain: Resolve) -> list[tuple[str, str]]:
    point = Point(name=after, overrides={"server.sglang": after})
    with Gate(plain(point), Path()) as gate:
        target = gate.files.target
    kinds = target.raw.get("architectures") if target else None
    known = kinds[0] if isinstance(kinds, list) and kinds and isinstance(kinds[0], str) else ""
    told = changes(before, after, known)
    if not told:
        nothing = f"nothing that concerns a drafter differs between {before} and {after}"
        return [("contract", f"{nothing}; the cause is elsewhere in SGLang")]
    return [("contract", line) for line in told]
