"""Options of single commands; quick to import, since every command line reads them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path


def add_replay(command: argparse.ArgumentParser, given: Callable[[str], str]) -> None:
    """Add the options of `replay`; `given` refuses an empty text."""
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
