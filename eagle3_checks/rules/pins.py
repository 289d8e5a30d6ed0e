"""What the version of transformers that SGLang pins changes in how a config.json is read.

Seen by loading configs with 4.57.1, 5.3.0, 5.6.0, 5.8.1, 5.12.1 and 5.19.0, which SGLang 0.5.4 to
0.5.23 pin: RoPE is one dict in all of 5, and from 5.6.0 on a config class checks its fields' types.
"""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from eagle3_checks.contract.version import Contract

_NEW_ROPE = Version("5")
_STRICT = Version("5.6")
_NULL_ALGORITHM = Version("0.5.23")
"""The SGLang it was seen in (modelopt_quant.py, on the config as it is read)."""


def transformers(contract: Contract) -> str:
    """Return the version pinned by this SGLang, as in ``transformers 5.19.0``."""
    return f"transformers {contract.requires.get('transformers', 'of an unknown version')}"


def one_rope_dict(contract: Contract) -> bool:
    """Whether RoPE is read from ``rope_parameters``, into which the older keys are folded."""
    return _pinned(contract) >= _NEW_ROPE


def stops_at_null_algorithm(contract: Contract) -> bool:
    """Whether ``quantization_config.quant_algo: null`` is known to stop the server."""
    return Version(contract.version) >= _NULL_ALGORITHM


def strict_types(contract: Contract) -> bool:
    """Whether a null or a value of another type in a typed field stops the server."""
    return _pinned(contract) >= _STRICT


def _pinned(contract: Contract) -> Version:
    try:
        return Version(contract.requires.get("transformers", ""))
    except InvalidVersion:
        return Version("0")
