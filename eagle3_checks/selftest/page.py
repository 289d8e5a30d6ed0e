"""``python -m eagle3_checks.selftest.page``: write docs/detection.md.

What files and flags show is worked out anew; what servers show was recorded into
docs/detection.json by ``eagle3-checks selftest --serve --json docs/detection.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from eagle3_checks.reference.defects import DEFECTS, VARIANTS
from eagle3_checks.reference.defects.kinds import GROUPS, Kind, kinds
from eagle3_checks.selftest.matrix import summarise, table
from eagle3_checks.selftest.row import Row
from eagle3_checks.selftest.running import static_rows

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, RECORD = DOCS / "detection.md", DOCS / "detection.json"
COMMAND = "python -m eagle3_checks.selftest.page"
ABOUT = f"""\
Every defect below is planted in the suite's own tiny pair, and every healthy variant too:

<!-- not run: tests_cpu/selftest and tests_cpu/serve run the rows -->
```
eagle3-checks selftest            # what files and flags show, in seconds
eagle3-checks selftest --serve    # what the real server shows, on the CPU engine
```

Both exit with 1 where a defect is missed, a healthy variant is not passed, or fewer than nine
causes in ten stand first. `-k NAME` picks rows. This page is written by
`{COMMAND}`.

A cause is *proven* by a rule that found an error or by the one change that brings acceptance back,
*likely* where the evidence tells it from others, else *suspected*: [diagnosis.md](diagnosis.md)."""
KINDS = """\
What is known to go wrong, from public reports, in this project's words. Where no defect stands for
a kind, it says why."""
ON_SERVERS = """\
Each row is one server, started in spite of errors in the files. *Accept length* is what it served,
*replayed* what the reference reaches with the same files on the target's true states: both low, the
fault is in the files; only the first, in the wiring. Defects are held against the healthy pair's
run too, prompt by prompt (ACC005)."""


def page(static: Sequence[Row], served: Sequence[Row]) -> str:
    """Return the page's text."""
    titles = {planted.name: planted.title for planted in (*DEFECTS.values(), *VARIANTS.values())}
    told = [row for row in static if row.name in DEFECTS and (row.errors or row.warnings)]
    silent = [row.name for row in static if row.name in DEFECTS and row not in told]
    healthy = [row for row in static if row.name in VARIANTS]
    bad = [row for row in served if row.name in DEFECTS]
    parts = [
        "# What is caught",
        ABOUT,
        "## On files and flags",
        f"{len(told)} defects; {len(silent)} more are silent here, and shown below.",
        table(told, titles, served=False),
        "## On a server",
        ON_SERVERS,
        _figures(served),
        table(bad, titles, served=True),
        *_open(served),
        "## Healthy variants",
        "None of them may raise an error, here or on a server.",
        table([r for r in served if r.name in VARIANTS] or healthy, titles, served=bool(served)),
        "On files and flags alone: " + ", ".join(f"`{row.name}`" for row in healthy) + ".",
        "## Every kind of fault",
        KINDS,
        *_kinds(),
    ]
    return "\n\n".join(parts) + "\n"


def recorded(file: Path = RECORD) -> tuple[Row, ...]:
    """Return the rows of a recorded run; none where there is no record."""
    if not file.is_file():
        return ()
    rows = json.loads(file.read_text(encoding="utf-8"))
    lists = ("errors", "warnings", "problems")
    return tuple(Row(**row | {name: tuple(row[name]) for name in lists}) for row in rows)


def _figures(served: Sequence[Row]) -> str:
    summary = summarise(served, DEFECTS)
    silent = [row for row in served if row.name in DEFECTS and DEFECTS[row.name].silent]
    right = sum(not row.wrong_cause for row in silent)
    return (
        f"{summary.served} defects served, {len(silent)} of them silent before; "
        f"{len(summary.bad)} rows with a miss or a false alarm. The planted cause stands first in "
        f"{summary.right} of {summary.served}, and in {right} of {len(silent)} silent ones."
    )


def _open(served: Sequence[Row]) -> Iterator[str]:
    """Name the rows that are served and were not recorded."""
    have = {row.name for row in served}
    zoo = (*VARIANTS.values(), *DEFECTS.values())
    missing = [f"`{p.name}`" for p in zoo if p.served and p.name not in have]
    if missing:
        yield f"Not recorded here; the command above serves them too: {', '.join(missing)}."


def _kinds() -> Iterator[str]:
    planted: dict[str, list[str]] = {}
    for defect in DEFECTS.values():
        planted.setdefault(defect.kind, []).append(f"`{defect.name}`")
    for group, members in groupby(kinds().values(), lambda kind: kind.group):
        yield f"### {group}: {GROUPS[group]}"
        lines = ["| kind | rules | planted as, or why not | reports |", "|---|---|---|---|"]
        for kind in members:
            how = ", ".join(planted.get(kind.id, ())) or kind.out
            lines.append(f"| {kind.what} | {' '.join(kind.rules)} | {how} | {_threads(kind)} |")
        yield "\n".join(lines)


def _threads(kind: Kind) -> str:
    links = (
        f"[{thread}](https://github.com/{thread.replace('#', '/issues/')})"
        for thread in kind.threads
    )
    return " ".join(links)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or say that it is not current."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Write docs/detection.md.")
    parser.add_argument("--check", action="store_true", help="exit 1 where it is not current")
    arguments = parser.parse_args(argv)
    text = page(tuple(static_rows((*VARIANTS.values(), *DEFECTS.values()))), recorded())
    if not arguments.check:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{PAGE} is not current; run {COMMAND}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
