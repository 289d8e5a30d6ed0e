"""Reports from inside an SGLang server how its EAGLE-3 drafter was loaded, fed and wired.

The folder above goes on the PYTHONPATH of the server processes alone. SGLang finds the
distribution beside this package through the entry point group ``sglang.srt.plugins`` (SGLang 0.5.11
and later) and calls ``hooks.activate`` in each of its processes. The facts are JSON lines in the
files ``$EAGLE3_PROBE_FILE.<pid>.jsonl``; where that variable is unset, nothing happens.
"""

from __future__ import annotations
