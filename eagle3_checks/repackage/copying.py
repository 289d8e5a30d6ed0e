"""Bytes from one file into another, whatever their number, in little memory."""

from __future__ import annotations

import errno
import os
from pathlib import Path

CHUNK = 8 << 20
_ONCE = 1 << 30
_ELSEWISE = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF}
"""Errors of file systems that do not copy by themselves."""


def copy_range(source: int, target: int, offset: int, count: int) -> None:
    """Append `count` bytes from `offset` of one descriptor to where another stands.

    The kernel copies where it can (some file systems then share the blocks). EOFError where the
    source ends early, OSError where the disk is full.
    """
    kernel = hasattr(os, "copy_file_range")
    while count:
        done = 0
        if kernel:
            try:
                done = os.copy_file_range(source, target, min(count, _ONCE), offset_src=offset)
            except OSError as error:
                if error.errno not in _ELSEWISE:
                    raise
            # Some file systems answer 0 for a copy that they cannot do.
            kernel = done > 0
        if not done:
            done = _by_hand(source, target, offset, count)
        offset += done
        count -= done


def copy_file(source: Path, target: Path) -> None:
    """Copy a whole file that is not there yet."""
    with source.open("rb") as old, target.open("xb") as new:
        copy_range(old.fileno(), new.fileno(), 0, os.fstat(old.fileno()).st_size)


def _by_hand(source: int, target: int, offset: int, count: int) -> int:
    data = os.pread(source, min(count, CHUNK), offset)
    if not data:
        raise EOFError(f"the file ends at byte {offset}; {count} more are needed")
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]
    return len(data)
