"""All tensors of a checkpoint's folder, chosen from the files that SGLang would load.

SGLang takes every ``*.safetensors`` of the folder, or, with an index, those the index names
(sglang/srt/model_loader: ``_prepare_weights``, ``filter_duplicate_safetensors_files``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from eagle3_checks.checkpoint.files import (
    MAX_JSON_BYTES,
    CheckpointError,
    check_folder,
    os_problem,
    plain_name,
    problem,
    read_json,
    shown,
)
from eagle3_checks.checkpoint.header import MAX_PROBLEMS, read_header
from eagle3_checks.facts import FileFault, FileProblem, Manifest, TensorInfo

INDEX = "model.safetensors.index.json"
MAX_FILES = 2000
PICKLES = (".bin", ".pt", ".pth", ".ckpt")

_CONVERT = (
    "convert it, on a machine where you trust the file: "
    'python -c "import torch, safetensors.torch as s; '
    "w = torch.load('{file}', map_location='cpu', weights_only=True); "
    "s.save_file({{k: v.contiguous().clone() for k, v in w.items()}}, 'model.safetensors')\""
)


def read_manifest(folder: Path) -> Manifest:
    """Read the headers of a checkpoint; never its data, and never raises.

    What cannot be read is told in `problems`, one for each file or tensor.
    """
    source = str(folder)
    fault = check_folder(folder)
    if fault:
        return Manifest(source=source, tensors={}, files=(), problems=(fault,))
    try:
        index = _read_index(folder)
        files = index.files if index else _all_files(folder)
        problems = list(index.problems) if index else []
        if not files and not problems:
            problems.append(_nothing(folder))
    except CheckpointError as error:
        return Manifest(source=source, tensors={}, files=(), problems=(error.problem,))
    tensors: dict[str, TensorInfo] = {}
    metadata: dict[str, str] = {}
    for file in files:
        header = read_header(folder / file, file)
        problems.extend(header.problems)
        problems.extend(_twice(file, header.tensors, tensors))
        tensors.update(header.tensors)
        metadata.update(header.metadata)
    if index:
        problems.extend(index.misplaced(tensors))
    return Manifest(
        source=source,
        tensors=MappingProxyType(tensors),
        files=tuple(files),
        metadata=MappingProxyType(metadata),
        problems=tuple(problems),
    )


def _twice(
    file: str, held: Mapping[str, TensorInfo], before: Mapping[str, TensorInfo]
) -> Iterator[FileProblem]:
    """Tell tensors that another file holds too, once for each such file."""
    shared: dict[str, list[str]] = {}
    for name in held:
        if name in before:
            shared.setdefault(before[name].file, []).append(name)
    for other, names in shared.items():
        more = f" and {len(names) - 1} more are" if len(names) > 1 else " is"
        yield problem(
            FileFault.DUPLICATE,
            file,
            f"tensor {shown(names[0])}{more} in {shown(other)} too; which one SGLang keeps depends "
            "on the order of the files",
            "keep each tensor in one file, and remove files that are left over",
        )


class _Index:
    """``model.safetensors.index.json``: which file holds which tensor."""

    def __init__(self, folder: Path, weight_map: dict[str, str]) -> None:
        self._weight_map = weight_map
        self.files: list[str] = []
        self.problems: list[FileProblem] = []
        for file in dict.fromkeys(weight_map.values()):
            fault = self._check(folder, file)
            if fault:
                self.problems.append(fault)
            else:
                self.files.append(file)
            if len(self.problems) >= MAX_PROBLEMS:
                break

    def _check(self, folder: Path, file: str) -> FileProblem | None:
        if not plain_name(file) or not file.endswith(".safetensors"):
            return problem(
                FileFault.UNREADABLE,
                INDEX,
                f"it names {shown(file)!r}; SGLang reads only *.safetensors files that lie beside "
                "it, and a name that leads elsewhere is not followed",
                "put all shards beside the index and name them without a folder",
            )
        try:
            (folder / file).stat()
        except FileNotFoundError:
            count = sum(1 for f in self._weight_map.values() if f == file)
            return problem(
                FileFault.ABSENT_SHARD,
                INDEX,
                f"it names {shown(file)} ({count} tensors), which is not there",
                f"download or copy {shown(file)}",
            )
        except OSError as error:
            return os_problem(error, file)
        return None

    def misplaced(self, tensors: dict[str, TensorInfo]) -> list[FileProblem]:
        """Tell tensors that the index promises and no file that could be read holds."""
        lost = [
            (name, file)
            for name, file in self._weight_map.items()
            if file in self.files and name not in tensors
        ]
        return [
            problem(
                FileFault.BAD_HEADER,
                INDEX,
                f"it says that {shown(file)} holds {shown(name)}, which it does not",
                "write the index again from the files",
            )
            for name, file in lost[:MAX_PROBLEMS]
        ]


def _read_index(folder: Path) -> _Index | None:
    path = folder / INDEX
    try:
        path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(os_problem(error, INDEX)) from error
    value = read_json(path, INDEX, MAX_JSON_BYTES).value
    weight_map = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(weight_map, dict) or not all(
        isinstance(file, str) for file in weight_map.values()
    ):
        raise CheckpointError(
            problem(
                FileFault.NOT_JSON,
                INDEX,
                "it must hold weight_map, an object from tensor names to file names",
                "write the index again from the files, or remove it",
            )
        )
    return _Index(folder, weight_map)


def _all_files(folder: Path) -> list[str]:
    """Return the safetensors files by name; as with SGLang's glob, hidden files do not count."""
    files = [n for n in _names(folder) if n.endswith(".safetensors") and not n.startswith(".")]
    if len(files) > MAX_FILES:
        raise CheckpointError(
            problem(
                FileFault.UNREADABLE,
                str(folder),
                f"it holds {len(files)} safetensors files; at most {MAX_FILES} are read",
                "give the folder of one checkpoint",
            )
        )
    # SGLang's own exception for checkpoints that ship both forms.
    if files == ["consolidated.safetensors", "model.safetensors"]:
        return files[1:]
    return files


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        raise CheckpointError(os_problem(error, str(folder))) from error


def _nothing(folder: Path) -> FileProblem:
    """Say what is there instead of safetensors files."""
    names = _names(folder)
    pickles = [n for n in names if n.endswith(PICKLES) and n != "training_args.bin"]
    if pickles:
        return problem(
            FileFault.PICKLE_ONLY,
            pickles[0],
            f"the weights are only in pickle form ({shown(', '.join(pickles))}), which is a "
            "program and is never opened here",
            _CONVERT.format(file=shown(pickles[0])),
        )
    detail = "there is no *.safetensors file"
    below = sorted(p.parent.name for p in folder.glob("*/*.safetensors"))
    if below:
        detail += f"; the folder {shown(below[0])} in it has some"
    return problem(
        FileFault.MISSING,
        str(folder),
        detail,
        "give the folder that holds config.json and model.safetensors",
    )
