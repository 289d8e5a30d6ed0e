"""What the files of a drafter and its target say, read once and only when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from eagle3_checks.checkpoint.config import read_draft_config, read_target_config
from eagle3_checks.checkpoint.corners import read_corners
from eagle3_checks.checkpoint.digest import digest
from eagle3_checks.checkpoint.files import CheckpointError
from eagle3_checks.checkpoint.hub import hub_id, local_folder, open_folder
from eagle3_checks.checkpoint.manifest import read_manifest
from eagle3_checks.checkpoint.tokenizer import read_tokenizer
from eagle3_checks.checkpoint.values import VocabMap, read_vocab_map
from eagle3_checks.facts import (
    Corner,
    DraftConfig,
    FileProblem,
    Manifest,
    TargetConfig,
    TensorValues,
    Tokenizer,
)


class Subject:
    """A drafter and, where one is given, its target: folders or hub ids. Nothing raises."""

    def __init__(self, drafter: str, target: str = "", *, fetch: bool = True) -> None:
        """Nothing is read yet; with `fetch`, what a hub id names is downloaded, weights and all.

        Without, headers, configs and small tensors of a hub id are read by range requests.
        """
        self.drafter_source = drafter
        self.target_source = target
        self._fetch = fetch

    @property
    def folder(self) -> Path | None:
        """Where the drafter's files lie; None where it cannot be reached."""
        return None if isinstance(self._drafter, FileProblem) else self._drafter

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
        folder = self._drafter
        if isinstance(folder, FileProblem):
            return VocabMap()
        return read_vocab_map(folder, self.manifest)

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
        folder = self._target
        if isinstance(folder, FileProblem):
            return TargetConfig(source=self.target_source, raw={}, problems=(folder,))
        return None if folder is None else read_target_config(folder)

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The target's special tokens; None without a target, or without tokenizer files."""
        folder = self._target
        return None if folder is None or isinstance(folder, FileProblem) else read_tokenizer(folder)

    @cached_property
    def values(self) -> TensorValues | None:
        """What a pass over all values found, for which a hub id's weights are downloaded."""
        try:
            folder = local_folder(self.drafter_source, weights=True)
        except CheckpointError:
            return None
        target = self._target if hub_id(self.target_source) is None else None
        beside = None if isinstance(target, FileProblem) else target
        from eagle3_checks.checkpoint.scan import scan  # noqa: PLC0415 - only --values needs it

        return scan(folder, read_manifest(folder), beside)

    @cached_property
    def corners(self) -> Mapping[str, Corner] | None:
        """The first values of the drafter's matrices; None where its weights are not here."""
        folder = self._drafter
        if isinstance(folder, FileProblem) or not folder.is_dir():
            return None
        return read_corners(folder, self.manifest)

    @cached_property
    def drafter_hash(self) -> str | None:
        """Identity of the drafter's files; None where they cannot be read."""
        folder = self._drafter
        if isinstance(folder, FileProblem):
            return None
        # A hub's weights are not read, so that their values cannot count.
        by_ranges = not self._fetch and hub_id(self.drafter_source) is not None
        return digest(folder, full_below=0) if by_ranges else digest(folder)

    @cached_property
    def _drafter(self) -> Path | FileProblem:
        return self._folder(self.drafter_source, weights=True)

    @cached_property
    def _target(self) -> Path | FileProblem | None:
        return self._folder(self.target_source, weights=False) if self.target_source else None

    def _folder(self, source: str, *, weights: bool) -> Path | FileProblem:
        reach = local_folder if self._fetch else open_folder
        try:
            return reach(source, weights=weights)
        except CheckpointError as error:
            return error.problem
