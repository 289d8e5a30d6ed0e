"""The probe's output: one JSON line per distinct fact, in a file of this process."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 1


class Recorder:
    """Appends facts to ``<prefix>.<pid>.jsonl``; a fact seen before is not written again.

    Every line holds ``v``, ``pid``, ``rank`` (tensor parallel rank, 0 while unknown) and ``fact``.
    Nothing here raises: the server must not fail because of its probe.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._pid = -1
        self._seen: set[str] = set()

    def emit(self, fact: str, **fields: Any) -> None:
        """Write one fact, unless the same was written before by this process."""
        with contextlib.suppress(Exception):
            if self._pid != os.getpid():
                # A forked process reports for itself.
                self._pid, self._seen = os.getpid(), set()
            head = {"v": VERSION, "pid": self._pid, "rank": _tensor_parallel_rank(), "fact": fact}
            line = json.dumps(head | fields)
            if line in self._seen:
                return
            self._seen.add(line)
            with Path(f"{self._prefix}.{self._pid}.jsonl").open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    @contextlib.contextmanager
    def guard(self, where: str) -> Iterator[None]:
        """Turn an error of the probe into a fact ``error``."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the server must not fail because of its probe
            self.emit("error", where=where, error=f"{type(error).__name__}: {error}")


def _tensor_parallel_rank() -> int:
    parallel_state = sys.modules.get("sglang.srt.distributed.parallel_state")
    try:
        return int(parallel_state.get_tensor_model_parallel_rank())  # type: ignore[union-attr]
    except Exception:  # noqa: BLE001 - unknown before the process groups exist
        return 0
