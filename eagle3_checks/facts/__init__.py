"""What was seen: frozen records without behaviour.

Readers of files, of a running server and of measurements fill these in; rules judge them. Nothing
here knows what a value should be.
"""

from __future__ import annotations

from eagle3_checks.facts.files import (
    DraftConfig,
    EmbeddingSeen,
    FileFault,
    FileProblem,
    Manifest,
    Shape,
    TargetConfig,
    TensorInfo,
    TensorStats,
    TensorValues,
    Tokenizer,
)
from eagle3_checks.facts.measured import (
    Acceptance,
    BaselineSeen,
    Depth,
    Group,
    Interval,
    Quantiles,
    Replayed,
    RequestSample,
    SpeedUp,
    Stream,
    Throughput,
)
from eagle3_checks.facts.parity import (
    Comparison,
    Divergence,
    Looping,
    Parity,
    RequestKind,
    ZeroRun,
)
from eagle3_checks.facts.server import (
    CaptureSeen,
    DraftedSeen,
    ForwardSeen,
    HeadsSeen,
    LoadedTensor,
    LoadSeen,
    ServerSeen,
    StateDigest,
    StatesSeen,
    TrueStates,
    Wiring,
)

__all__ = [
    "Acceptance",
    "BaselineSeen",
    "CaptureSeen",
    "Comparison",
    "Depth",
    "Divergence",
    "DraftConfig",
    "DraftedSeen",
    "EmbeddingSeen",
    "FileFault",
    "FileProblem",
    "ForwardSeen",
    "Group",
    "HeadsSeen",
    "Interval",
    "LoadSeen",
    "LoadedTensor",
    "Looping",
    "Manifest",
    "Parity",
    "Quantiles",
    "Replayed",
    "RequestKind",
    "RequestSample",
    "ServerSeen",
    "Shape",
    "SpeedUp",
    "StateDigest",
    "StatesSeen",
    "Stream",
    "TargetConfig",
    "TensorInfo",
    "TensorStats",
    "TensorValues",
    "Throughput",
    "Tokenizer",
    "TrueStates",
    "Wiring",
    "ZeroRun",
]
