from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny() -> Path:
    """Return the folder of the committed pair."""
    return Path(__file__).resolve().parents[2] / "fixtures" / "tiny"


@pytest.fixture(scope="session")
def prompt_folder(tiny: Path) -> Path:
    return tiny.parent / "prompts"
