"""Drafters that the stand-in server serves as each of them says."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eagle3_checks.shipped import shipped

FAKE = Path(__file__).parents[1] / "plugin" / "fake_sglang.py"
TINY = shipped("fixtures", "tiny")

Drafters = Callable[..., list[Path]]


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """Return a profile whose server is the stand-in."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("\n".join(json.dumps({"text": f"p{i}", "id": f"p{i}"}) for i in range(8)))
    path = tmp_path / "stand-in.toml"
    path.write_text(
        f'[target]\npath = "{TINY / "target"}"\n'
        '[server]\ndevice = "cpu"\nstart_timeout = 20\nsglang = "0.5.23"\n'
        f"command = {json.dumps([sys.executable, str(FAKE)])}\n"
        f'[prompts]\nsets = ["{prompts}"]\nmax_new_tokens = 8\nlimit = 4\n'
        "[speed]\nconcurrencies = [1]\nrequests = 2\n"
    )
    return path


@pytest.fixture
def drafters(tmp_path: Path) -> Drafters:
    """Return a function that writes epoch folders, each with the flags it is served with."""

    def write(*flags: str) -> list[Path]:
        folders = []
        for number, words in enumerate(flags):
            folder = tmp_path / "run" / f"epoch-{number}"
            shutil.copytree(TINY / "drafter", folder, copy_function=os.link)
            (folder / "stand-in.txt").write_text(words)
            config = json.loads((folder / "config.json").read_text()) | {"epoch": number}
            (folder / "config.json").unlink()  # a link to the healthy one
            (folder / "config.json").write_text(json.dumps(config))
            folders.append(folder)
        return folders

    return write
