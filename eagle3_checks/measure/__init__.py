"""Measurements of a running server; what they should be is the rules' affair."""

from __future__ import annotations
