"""Derives the contract's data from SGLang's wheels, read as source: nothing of SGLang is run.

``python -m eagle3_checks.contract.derive --help`` says how. What the source does not state in a
form that was reviewed is refused, and nothing is written: read it, and teach it to this package.
"""

from __future__ import annotations
