"""Files to facts: headers, configs and small tensor values, without torch."""

from __future__ import annotations

from eagle3_checks.checkpoint.config import read_draft_config, read_target_config
from eagle3_checks.checkpoint.digest import digest
from eagle3_checks.checkpoint.files import CheckpointError
from eagle3_checks.checkpoint.manifest import read_manifest
from eagle3_checks.checkpoint.values import (
    VocabMap,
    read_d2t,
    read_tensor_bytes,
    read_vocab_map,
)

__all__ = [
    "CheckpointError",
    "VocabMap",
    "digest",
    "read_d2t",
    "read_draft_config",
    "read_manifest",
    "read_target_config",
    "read_tensor_bytes",
    "read_vocab_map",
]
