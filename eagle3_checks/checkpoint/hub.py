"""Checkpoints named by a hub id: fetched into the hub's own cache, the usual token applying."""

from __future__ import annotations

from pathlib import Path

from eagle3_checks.checkpoint.files import fail
from eagle3_checks.facts import FileFault

CONFIG_FILES = ("*.json",)
WEIGHT_FILES = ("*.json", "*.safetensors")


def local_folder(source: str, *, weights: bool) -> Path:
    """Return the folder of a source: itself, or the snapshot of a hub id ``org/name[@revision]``.

    With `weights`, safetensors files are fetched too; pickle files and code never are. Raises
    CheckpointError where the hub has no such repository, gives no access, or cannot be reached.
    """
    path = Path(source).expanduser()
    if path.exists() or path.is_absolute() or source.count("/") != 1:
        return path
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - slow to import
    from huggingface_hub.errors import (  # noqa: PLC0415
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    name, _, revision = source.partition("@")
    try:
        folder = snapshot_download(
            name,
            revision=revision or None,
            allow_patterns=list(WEIGHT_FILES if weights else CONFIG_FILES),
        )
    except HFValidationError:
        detail = "there is no such folder, and it is no hub id of the form org/name[@revision]"
        fail(FileFault.MISSING, source, detail, "give an existing folder or a hub id")
    except GatedRepoError:
        detail = "the hub says that access to it is restricted"
        fix = f"ask for access on the page of {name}, then log in with `hf auth login`"
        fail(FileFault.UNREADABLE, source, detail, fix)
    except RevisionNotFoundError:
        fail(FileFault.MISSING, source, f"the hub has no revision {revision!r}", "correct it")
    except RepositoryNotFoundError:
        detail = "there is no such folder, and the hub has no such repository, or hides it"
        fail(FileFault.MISSING, source, detail, "correct the name, or log in with `hf auth login`")
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        reason = str(error).partition("\n")[0]
        detail = f"there is no such folder, and the hub cannot be reached: {reason}"
        fail(FileFault.UNREADABLE, source, detail, "give a local folder, or check the network")
    return Path(folder)
