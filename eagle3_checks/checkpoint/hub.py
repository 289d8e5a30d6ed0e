"""Checkpoints named by a hub id ``org/name[@revision]``, the usual token and endpoint applying."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from eagle3_checks.checkpoint.files import CheckpointError
from eagle3_checks.checkpoint.hub_faults import (
    NO_HUB,
    address,
    network_problem,
    no_revision,
    not_an_id,
    offline,
    refused,
    unreachable,
)

CONFIG_FILES = ("*.json",)
WEIGHT_FILES = ("*.json", "*.safetensors")
API_SECONDS = 20.0
_ID = re.compile(r"(?P<name>\w[\w.-]*/[\w.-]+)(?:@(?P<revision>[\w./-]+))?", re.ASCII)


def hub_id(source: str) -> tuple[str, str] | None:
    """Return name and revision (may be empty) where this is a hub id and not a folder, or None."""
    written = _ID.fullmatch(source)
    if written is None or os.path.lexists(source):
        return None
    return written["name"], written["revision"] or ""


def local_folder(source: str, *, weights: bool) -> Path:
    """Return the folder of a source: itself, or the snapshot of a hub id ``org/name[@revision]``.

    With `weights`, safetensors files are fetched too; pickle files and code never are. Raises
    CheckpointError where the hub has no such repository, gives no access, or cannot be reached.
    """
    named = hub_id(source)
    if named is None:
        return _as_path(source)
    name, revision = named
    with _told(source, revision):
        from huggingface_hub import constants, snapshot_download  # noqa: PLC0415 - slow to import

        folder = snapshot_download(
            name,
            revision=revision or None,
            allow_patterns=list(WEIGHT_FILES if weights else CONFIG_FILES),
            local_files_only=constants.HF_HUB_OFFLINE,
        )
    return Path(folder)


def open_folder(source: str, *, weights: bool) -> Path:
    """Return the folder of a source, or a `RemoteFolder`, which reads a hub's files by ranges.

    Nothing is downloaded as a whole or kept. Where HF_HUB_OFFLINE is set, the hub's cache is read.
    Raises CheckpointError as `local_folder` does.
    """
    named = hub_id(source)
    if named is None:
        return _as_path(source)
    from huggingface_hub import HfApi, constants, hf_hub_url  # noqa: PLC0415 - slow to import
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # noqa: PLC0415

    from eagle3_checks.checkpoint.remote import RemoteFolder, Repository  # noqa: PLC0415

    if constants.HF_HUB_OFFLINE:
        return local_folder(source, weights=weights)
    name, revision = named
    with _told(source, revision):
        info = HfApi().model_info(
            name, revision=revision or None, files_metadata=True, timeout=API_SECONDS
        )
        files = {
            str(s.rfilename): s.size if type(s.size) is int else None for s in info.siblings or ()
        }
        commit = str(info.sha or revision or "main")
    folder = RemoteFolder(
        Repository(
            source=source,
            revision=revision,
            urls={file: hf_hub_url(name, file, revision=commit) for file in files},
            sizes=files,
            headers={k: str(v) for k, v in build_hf_headers().items()},
        )
    )
    # It answers like a path in all that the readers ask (tests_cpu/hub).
    return cast("Path", folder)


def _as_path(source: str) -> Path:
    if source.startswith(("https://", "http://")):
        raise CheckpointError(address(source))
    bare = source.removesuffix("@")
    if bare != source and not os.path.lexists(source) and _ID.fullmatch(bare):
        raise CheckpointError(no_revision(source, bare))
    return Path(os.path.expanduser(source))  # noqa: PTH111 - this one never raises


@contextmanager
def _told(source: str, revision: str) -> Iterator[None]:
    """Turn what the hub's library raises into CheckpointError."""
    from huggingface_hub import get_token  # noqa: PLC0415 - slow to import
    from huggingface_hub.errors import (  # noqa: PLC0415
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
    )

    # Its own error stands on that of the HTTP library that it speaks through: requests (an OSError)
    # before 1.0, then httpx, then httpx2.
    http = tuple(k for k in HfHubHTTPError.__mro__ if k.__name__ == "HTTPError")
    broken: tuple[type[Exception], ...] = (LocalEntryNotFoundError, OSError, *http)
    try:
        yield
    except HFValidationError as error:
        raise CheckpointError(not_an_id(source)) from error
    except broken as error:
        cause: Exception = error
        if isinstance(error, LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
            cause = error.__cause__
        response = cause.response if isinstance(cause, HfHubHTTPError) else None
        if isinstance(cause, LocalEntryNotFoundError | OfflineModeIsEnabled):
            fault = offline(source)
        elif response is None:
            fault = network_problem(source, cause)
        else:
            token = get_token() is not None
            fault = refused(source, revision, response.status_code, response.headers, token=token)
        raise CheckpointError(fault) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(unreachable(source, NO_HUB)) from error
