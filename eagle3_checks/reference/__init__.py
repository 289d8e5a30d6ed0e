"""EAGLE-3 in plain torch: the oracle, the tiny pair and its training, planted defects.

`defects`, `tensorfile` and `corpus` need the base install alone, the rest the extra `reference`.
"""

from __future__ import annotations
