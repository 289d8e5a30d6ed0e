"""The documentation: `sphinx-build -W --keep-going docs OUT`."""

from __future__ import annotations

from sphinx.application import Sphinx

project = "eagle3-checks"
extensions = ["myst_parser"]
exclude_patterns = ["examples"]
html_theme = "furo"
html_title = project
html_copy_source = False
html_show_copyright = False
myst_heading_anchors = 3

RULES = "rules/README"
RULE_PAGES = """
```{toctree}
:hidden:
:glob:

*
```
"""


def setup(app: Sphinx) -> None:
    """Put the pages of the rules below their index, which also has to read well elsewhere."""
    app.connect("source-read", _list_rules)


def _list_rules(_: Sphinx, page: str, source: list[str]) -> None:
    if page == RULES:
        source[0] += RULE_PAGES
