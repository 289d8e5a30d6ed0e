"""What the server flags of a profile say about how the drafter will be served."""

from __future__ import annotations

from eagle3_checks.profile import Server

LONGER = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
IN_CI = "SGLANG_IS_IN_CI"
_TRUE = {LONGER: ("1", "true", "yes", "y"), IN_CI: ("1", "true")}
"""What SGLang takes for true: sglang/srt/environ.py and utils/common.py."""


def flag(serving: Server | None, *names: str) -> str | None:
    """Return the value of a flag by any of its names, or None; given twice, the last one counts."""
    found = None
    args = serving.args if serving else ()
    for place, word in enumerate(args):
        name, equals, value = word.partition("=")
        if name in names:
            after = args[place + 1 : place + 2]
            found = value if equals else (after[0] if after else "")
    return found


def given(serving: Server | None, name: str) -> bool:
    """Whether a flag is given, with a value or without."""
    return flag(serving, name) is not None


def context_flag(serving: Server | None) -> int | None:
    """Return what --context-length says, or None."""
    value = flag(serving, "--context-length")
    return int(value) if value is not None and value.isascii() and value.isdigit() else None


def context_override(serving: Server | None) -> str | None:
    """Return the variable that lets the target's context exceed the drafter's, or None."""
    environment = serving.env if serving else {}
    return next((n for n, yes in _TRUE.items() if environment.get(n, "").lower() in yes), None)
