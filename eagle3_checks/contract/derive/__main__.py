"""``python -m eagle3_checks.contract.derive``: see ``--help``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from eagle3_checks.contract.derive.record import Record, derive, entries, render
from eagle3_checks.contract.derive.release import (
    RefusedError,
    Release,
    download,
    find_wheels,
    open_installed,
    open_wheel,
)
from eagle3_checks.contract.version import records

DATA = Path(__file__).parents[1] / "data" / "sglang.json"
_ABOUT = """Derives the contract's data from SGLang's wheels, without installing or running them.

The versions given are derived anew and take their place in the data file; read the diff. What a
wheel does not state in a form that was reviewed is refused, and nothing is written."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Derive, and write or compare; 0 where all is well, 1 where a fact differs or is refused."""
    parser = argparse.ArgumentParser(prog="python -m eagle3_checks.contract.derive")
    parser.description = _ABOUT
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="as in 0.5.23")
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="take wheels from this folder")
    parser.add_argument("--installed", action="store_true", help="the SGLang that is installed")
    parser.add_argument("--check", action="store_true", help="compare with the data; write nothing")
    parser.add_argument("--output", type=Path, default=DATA, help="the data file (%(default)s)")
    options = parser.parse_args(arguments)
    if not (options.versions or options.wheels or options.installed):
        parser.error("give versions, --wheels or --installed")
    known = records(options.output.read_text(encoding="utf-8")) if options.output.exists() else {}
    found = {version: dict(record) for version, record in known.items()}
    failed = False
    with ExitStack() as stack:
        for release in _releases(options, stack):
            try:
                record = derive(release)
            except RefusedError as refusal:
                failed = True
                _say(f"SGLang {release.version}: refused: {refusal}")
                continue
            before = known.get(release.version, {})
            record["sha256"] = record["sha256"] or before.get("sha256")
            found[release.version] = record
            failed |= options.check and _differs(release.version, before, record)
    if failed or options.check:
        return int(failed)
    options.output.write_text(render(entries(found)), encoding="utf-8")
    _say(f"{options.output}: {len(found)} versions; read the diff")
    return 0


def _releases(options: argparse.Namespace, stack: ExitStack) -> Iterator[Release]:
    if options.installed:
        yield open_installed()
    if options.wheels:
        yield from map(open_wheel, find_wheels(options.wheels, options.versions))
    elif options.versions:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for version in options.versions:
            yield open_wheel(download(version, folder))


def _differs(version: str, before: Record, now: Record) -> bool:
    """Say which facts the data does not hold so."""
    keys = [key for key in now if before.get(key) != now[key]]
    for key in keys:
        _say(f"SGLang {version}: {key} is {now[key]}; the data says {before.get(key)}")
    return bool(keys)


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - a command line prints


if __name__ == "__main__":
    sys.exit(main())
