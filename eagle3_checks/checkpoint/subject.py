"""What the files of a drafter and its target say, read once and only when asked for."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from eagle3_checks.checkpoint.config import read_draft_config, read_target_config
from eagle3_checks.checkpoint.digest import digest
from eagle3_checks.checkpoint.files import CheckpointError
from eagle3_checks.checkpoint.hub import local_folder
from eagle3_checks.checkpoint.manifest import read_manifest
from eagle3_checks.checkpoint.values import VocabMap, read_vocab_map
from eagle3_checks.facts import DraftConfig, FileProblem, Manifest, TargetConfig


class Subject:
    """A drafter and, where one is given, its target: folders or hub ids. Nothing raises."""

    def __init__(self, drafter: str, target: str = "") -> None:
        """Nothing is read yet."""
        self.drafter_source = drafter
        self.target_source = target

    @cached_property
    def manifest(self) -> Manifest:
        """The drafter's tensors, from headers alone."""
        folder = self._drafter
        if isinstance(folder, FileProblem):
            return Manifest(source=self.drafter_source, tensors={}, files=(), problems=(folder,))
        return read_manifest(folder)

    @cached_property
    def vocab(self) -> VocabMap:
        """The values of the drafter's d2t and t2d."""
        return read_vocab_map(Path(self.manifest.source), self.manifest)

    @cached_property
    def draft(self) -> DraftConfig:
        """The drafter's config.json."""
        folder = self._drafter
        if isinstance(folder, FileProblem):
            return DraftConfig(source=self.drafter_source, raw={}, problems=(folder,))
        return read_draft_config(folder)

    @cached_property
    def target(self) -> TargetConfig | None:
        """The target's config.json; None where no target was given."""
        if not self.target_source:
            return None
        folder = _folder(self.target_source, weights=False)
        if isinstance(folder, FileProblem):
            return TargetConfig(source=self.target_source, raw={}, problems=(folder,))
        return read_target_config(folder)

    @cached_property
    def drafter_hash(self) -> str | None:
        """Identity of the drafter's files; None where they cannot be read."""
        return None if isinstance(self._drafter, FileProblem) else digest(self._drafter)

    @cached_property
    def _drafter(self) -> Path | FileProblem:
        return _folder(self.drafter_source, weights=True)


def _folder(source: str, *, weights: bool) -> Path | FileProblem:
    try:
        return local_folder(source, weights=weights)
    except CheckpointError as error:
        return error.problem
