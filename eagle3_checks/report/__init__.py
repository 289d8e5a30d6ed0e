"""Reports: renderers over one result."""

from __future__ import annotations
