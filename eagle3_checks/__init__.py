"""Checks that an EAGLE-3 drafter will really speculate when SGLang serves it."""

from __future__ import annotations
