"""The report as one self-contained HTML page."""

from __future__ import annotations

from eagle3_checks.report.html.document import MissingExtraError, page, require_jinja, write_html

__all__ = ["MissingExtraError", "page", "require_jinja", "write_html"]
