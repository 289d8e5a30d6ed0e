"""Settings that every test of the project shares."""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["pytester"]

# Shared machines are slow at times; a deadline would report the machine, not the code.
settings.register_profile("project", deadline=None)
settings.load_profile("project")
