"""Settings that every test of the project shares; the gate's need pytest alone."""

from __future__ import annotations

pytest_plugins = ["pytester"]
