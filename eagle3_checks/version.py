"""The version of this suite, read by the build and by reports."""

from __future__ import annotations

VERSION = "0.1.0"
