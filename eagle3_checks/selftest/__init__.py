"""The selftest: every planted defect must be caught, and no healthy variant may be."""

from __future__ import annotations
