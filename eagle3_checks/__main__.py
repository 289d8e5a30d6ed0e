"""``python -m eagle3_checks``."""

from __future__ import annotations

import sys

from eagle3_checks.cli import main

sys.exit(main())
