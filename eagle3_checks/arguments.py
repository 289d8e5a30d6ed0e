"""Options of single commands; quick to import, since every command line reads them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPLAY_TEXT = """\
Run the drafter offline, on the target's true aux states: what it reaches where
nothing can be wired wrong. Served far below it, the wiring is at fault; both low,
the drafter is. Needs torch and transformers (eagle3-checks[reference]).
"""
REPLAY_EPILOG = """\
exit codes: 0 replayed (nothing is judged), 1 it cannot be replayed, 2 usage.
"""


def add_replay(
    commands: Any, given: Callable[[str], str], run: Callable[[argparse.Namespace], int]
) -> None:
    """Add the command `replay`; `given` refuses an empty text."""
    command = commands.add_parser(
        "replay",
        help="run the drafter offline, on the target's true aux states",
        description=REPLAY_TEXT,
        epilog=REPLAY_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run)
    add = command.add_argument
    add("--profile", type=given, metavar="FILE|NAME", help="a TOML file, or `tiny`")
    add("--target", type=given, metavar="MODEL", help="folder or hub id")
    add("--draft", type=given, metavar="MODEL", help="folder or hub id")
    add(
        "--from",
        dest="source",
        choices=("transformers", "server"),
        help="where the aux states come from: the target run by transformers (default), or a "
        "SGLang server without a drafter, for targets that fit nowhere else",
    )
    add("--url", type=given, metavar="URL", help="such a server that runs already")
    add("--prompts", type=int, metavar="N", help="replay N prompts of the profile's (default: all)")
    add("--device", choices=("auto", "cuda", "cpu"), help="where the drafter runs")
    add("--states", metavar="DIR", help="keep a server's states here, and go on from those there")
    add("--served", type=Path, metavar="RESULT", help="a gate's JSON result, to print beside")
    add("--json", type=Path, metavar="OUT", help="write the result as JSON")
    add("--artefacts", type=Path, metavar="DIR", default=Path("eagle3-artefacts"))
