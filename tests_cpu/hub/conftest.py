from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests_cpu.hub.stand_in import StandIn, running


@pytest.fixture
def files(
    tensor_file: Callable[..., bytes],
    healthy_tensors: Callable[..., dict[str, Any]],
    healthy_config: Callable[..., dict[str, Any]],
) -> dict[str, bytes]:
    """Return the files of a healthy drafter, with some that must stay where they are."""
    return {
        "config.json": json.dumps(healthy_config("draft")).encode(),
        "model.safetensors": tensor_file(healthy_tensors()),
        "training_state.pt": bytes(1000),
        "README.md": b"# a drafter",
    }


@pytest.fixture
def hub(
    files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[StandIn]:
    """Run a stand-in for the hub that has `org/drafter`, and send the hub's library there."""
    from huggingface_hub import constants, file_download  # noqa: PLC0415 - slow to import

    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with running(files) as state:
        template = state.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", state.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        # Releases before 1.0 use a copy of it.
        monkeypatch.setattr(file_download, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield state
