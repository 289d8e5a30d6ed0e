"""Rebuild the tiny pair: `python -m eagle3_checks.reference.build --out DIR`."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from eagle3_checks.reference.pair import Recipe, build_pair

if TYPE_CHECKING:
    from collections.abc import Sequence

REPORT = "build.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the pair into a folder, and write there what was seen."""
    parser = argparse.ArgumentParser(
        prog="python -m eagle3_checks.reference.build", description=__doc__
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for target/ and drafter/")
    parser.add_argument("--threads", type=int, default=2, help="torch threads (default: 2)")
    options = parser.parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S"
    )
    torch.set_num_threads(options.threads)
    report = build_pair(options.out, Recipe(), logging.getLogger("build").info)
    (options.out / REPORT).write_text(json.dumps(report.to_json(), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
