"""A repository of the hub, read by range requests: headers and small tensors, never the weights.

`RemoteFolder` and `RemoteFile` answer like the ``pathlib.Path`` of a folder and its files in all
that the readers of this package ask, so that one code path judges both.
"""

from __future__ import annotations

import os
import re
import stat
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import Literal, Self

import requests

from eagle3_checks.checkpoint.files import CheckpointError, fail
from eagle3_checks.checkpoint.hub_faults import network_problem, refused, unreachable
from eagle3_checks.facts import FileFault

CONNECT_SECONDS = 10.0
READ_SECONDS = 20.0
RANGE_SECONDS = 120.0
"""Longest time for one range, however slowly its bytes drip."""
WHOLE_BELOW = 4 << 20
"""A server that answers with the whole file in place of a range is read up to this byte."""
_CHUNK = 64 << 10
_TOTAL = re.compile(r"bytes (?P<begin>\d+)-\d+/(?P<total>\d+)", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository at one commit."""

    source: str
    """What the user wrote, for messages."""
    revision: str
    urls: Mapping[str, str]
    """Address of each file."""
    sizes: Mapping[str, int | None]
    headers: Mapping[str, str]
    """Sent with each request; they hold the token, which requests drops on other hosts."""


class RemoteFolder:
    """Answers like the path of a folder."""

    def __init__(self, repository: Repository) -> None:
        """Nothing is requested yet."""
        self._repository = repository
        self._session = requests.Session()
        self._files: dict[str, RemoteFile] = {}
        weakref.finalize(self, self._session.close)

    def __str__(self) -> str:
        return self._repository.source

    def __truediv__(self, name: str) -> RemoteFile:
        if name not in self._files:
            self._files[name] = RemoteFile(self._repository, self._session, name)
        return self._files[name]

    def stat(self) -> os.stat_result:
        """Tell that it is a folder."""
        return _status(stat.S_IFDIR, 0)

    def iterdir(self) -> Iterator[RemoteFile]:
        """Yield the files at the top."""
        return (self / name for name in self._repository.sizes if "/" not in name)

    def glob(self, pattern: str) -> Iterator[PurePosixPath]:
        """Yield the names that match, folder by folder."""
        depth = pattern.count("/")
        names = (name for name in self._repository.sizes if name.count("/") == depth)
        return (PurePosixPath(name) for name in names if fnmatchcase(name, pattern))


class RemoteFile:
    """Answers like the path of a file; what was read of its start is kept."""

    def __init__(self, repository: Repository, session: requests.Session, name: str) -> None:
        """Nothing is requested yet."""
        self.name = name
        self._repository = repository
        self._session = session
        self._head = b""
        self._size = repository.sizes.get(name)

    def stat(self) -> os.stat_result:
        """Tell the size; FileNotFoundError where the repository has no such file."""
        if self.name not in self._repository.sizes:
            raise FileNotFoundError(2, "No such file", self.name)
        if self._size is None:
            self._head = self._fetch(0, 8)
        if self._size is None:
            fail(FileFault.UNREADABLE, self.name, "the hub does not say how long it is")
        return _status(stat.S_IFREG, self._size)

    def open(self, mode: Literal["rb"] = "rb") -> _Stream:
        """Return a stream whose reads are range requests."""
        del mode
        return _Stream(self)

    def read(self, begin: int, count: int) -> bytes:
        """Return up to `count` bytes from offset `begin`; raises CheckpointError."""
        end = min(begin + count, self.stat().st_size)
        if begin >= end:
            return b""
        if begin <= len(self._head):
            if end > len(self._head):
                self._head += self._fetch(len(self._head), end)
            return self._head[begin:end]
        return self._fetch(begin, end)

    def _fetch(self, begin: int, end: int) -> bytes:
        headers = {
            **self._repository.headers,
            "Range": f"bytes={begin}-{end - 1}",
            "Accept-Encoding": "identity",
        }
        url = self._repository.urls[self.name]
        try:
            with self._session.get(
                url, headers=headers, stream=True, timeout=(CONNECT_SECONDS, READ_SECONDS)
            ) as response:
                skip = self._check(response, begin, end)
                return self._body(response, skip, end - begin)
        except requests.RequestException as error:
            raise CheckpointError(network_problem(self._repository.source, error)) from error

    def _check(self, response: requests.Response, begin: int, end: int) -> int:
        """Return how many bytes come before the range; CheckpointError where it cannot be had."""
        repository = self._repository
        if response.status_code == HTTPStatus.OK:
            if end > WHOLE_BELOW:
                reason = "it does not answer range requests"
                raise CheckpointError(unreachable(repository.source, reason))
            stated = response.headers.get("Content-Length", "")
            self._size = int(stated) if self._size is None and stated.isdigit() else self._size
            return begin
        if response.status_code == HTTPStatus.PARTIAL_CONTENT:
            told = _TOTAL.match(response.headers.get("Content-Range", ""))
            if told is None or int(told["begin"]) != begin:
                reason = "it answers with another range than was asked for"
                raise CheckpointError(unreachable(repository.source, reason))
            self._size = int(told["total"]) if self._size is None else self._size
            return 0
        if response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            fail(FileFault.TRUNCATED, self.name, f"the hub's file ends before byte {end}")
        token = "authorization" in {key.lower() for key in repository.headers}
        fault = refused(
            repository.source,
            repository.revision,
            response.status_code,
            response.headers,
            token=token,
        )
        raise CheckpointError(fault)

    def _body(self, response: requests.Response, skip: int, count: int) -> bytes:
        """Return `count` bytes of the body, fewer where it ends; what comes after is not read."""
        until = time.monotonic() + RANGE_SECONDS
        body = bytearray()
        for chunk in response.iter_content(_CHUNK):
            body += chunk
            if len(body) >= skip + count:
                break
            if time.monotonic() > until:
                reason = f"{count} bytes did not come within {RANGE_SECONDS:.0f} seconds"
                raise CheckpointError(unreachable(self._repository.source, reason))
        return bytes(body[skip : skip + count])


class _Stream:
    """A file opened for reading."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._at = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def seek(self, offset: int) -> int:
        """Move to an offset from the start."""
        self._at = offset
        return offset

    def read(self, count: int) -> bytes:
        """Return up to `count` bytes."""
        data = self._file.read(self._at, count)
        self._at += len(data)
        return data


def _status(kind: int, size: int) -> os.stat_result:
    return os.stat_result((kind | 0o444, 0, 0, 1, 0, 0, size, 0, 0, 0))
