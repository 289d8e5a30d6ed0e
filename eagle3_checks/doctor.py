"""What this machine can do: one line a fact, exit 0 only where a gate can run."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TextIO

from eagle3_checks.contract.version import Contract, ContractError, contract_for
from eagle3_checks.server.device import detect_device
from eagle3_checks.server.leftovers import remains
from eagle3_checks.server.ports import PortTakenError, ReservedPort
from eagle3_checks.server.vital import ask_gpus
from eagle3_checks.shipped import shipped
from eagle3_checks.verdict import ExitCode

GIB = 1 << 30
HUB = "https://huggingface.co"
HUB_SECONDS = 5.0
LEAST_SHM = 1 << 30
NAME, WIDTH = 12, 80


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One thing found, and what to do about it."""

    name: str
    text: str
    fix: str = ""
    """What must be done before a gate can run."""
    advice: str = ""
    """What had better be done; a gate can run without."""


def examine(out: TextIO) -> ExitCode:
    """Print what was found; PASS where a gate can run, FAIL where something must be done first."""
    facts = tuple(_facts())
    for fact in facts:
        _write(out, fact.name, fact.text)
        for hint in (fact.fix, fact.advice):
            if hint:
                _write(out, "", f"-> {hint}")
    ready = not any(fact.fix for fact in facts)
    out.write("a gate can run here\n" if ready else "a gate cannot run here yet\n")
    return ExitCode.PASS if ready else ExitCode.FAIL


def _write(out: TextIO, name: str, text: str) -> None:
    indent = " " * NAME
    first = f"{name:{NAME}}"
    # A command is to be copied: it is never broken.
    if "-> " in text and (" kill " in text or " rm " in text):
        out.write(f"{first}{text}\n")
        return
    filled = textwrap.wrap(text, WIDTH - NAME, break_long_words=False, break_on_hyphens=False)
    out.write(first + f"\n{indent}".join(filled) + "\n")


def _facts() -> Iterator[Fact]:
    yield Fact(name="python", text=f"{platform.python_version()} at {sys.executable}")
    sglang, contract = _sglang()
    yield sglang
    yield _gpu()
    yield _engine(contract)
    yield _shipped()
    yield _hub()
    yield _port()
    yield from _disks()
    yield _leftovers()


def _sglang() -> tuple[Fact, Contract | None]:
    try:
        version = importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        fix = "pip install 'eagle3-checks[sglang]', or name another interpreter in server.python"
        return Fact(name="sglang", text="not installed in this interpreter", fix=fix), None
    try:
        contract = contract_for(version)
    except ContractError as error:
        return Fact(name="sglang", text=version, fix=str(error)), None
    return Fact(name="sglang", text=f"{version}, judged as {contract.name}"), contract


def _gpu() -> Fact:
    if detect_device() is None:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = f" (CUDA_VISIBLE_DEVICES is {hidden!r})" if hidden is not None else ""
        return Fact(name="gpu", text=f"none{why}")
    seen = ask_gpus("name,driver_version,memory.total,memory.used")
    if not seen:
        return Fact(
            name="gpu",
            text="an NVIDIA GPU whose driver does not answer",
            fix="run nvidia-smi and mend the driver; in a container, give --gpus",
        )
    rows = [[field.strip() for field in line.split(",")] for line in seen]
    kinds = Counter((name, driver) for name, driver, *_ in rows)
    listed = ", ".join(f"{n} x {name}, driver {d}" for (name, d), n in kinds.items())
    busy = [str(i) for i, row in enumerate(rows) if _number(row[3]) > _number(row[2]) / 10]
    advice = f"GPU {', '.join(busy)} has memory in use: nvidia-smi shows by whom" if busy else ""
    return Fact(name="gpu", text=listed, advice=advice)


def _number(text: str) -> float:
    return float(text) if text.replace(".", "", 1).isdigit() else 0.0


def _engine(contract: Contract | None) -> Fact:
    """Say whether SGLang's CPU engine can serve, which matters where there is no GPU."""
    if contract is None:
        return Fact(name="cpu engine", text="unknown without SGLang")
    if contract.cpu_eagle:
        return Fact(name="cpu engine", text="serves EAGLE-3; for small models")
    none = detect_device() is None
    fix = "serve on a GPU host, or install SGLang 0.5.16 or later" if none else ""
    return Fact(name="cpu engine", text="no EAGLE-3 in this release", fix=fix)


def _shipped() -> Fact:
    tiny = shipped("fixtures", "tiny", "drafter", "model.safetensors")
    if tiny.is_file():
        return Fact(name="tiny pair", text=f"at {tiny.parent.parent}")
    return Fact(name="tiny pair", text="missing", fix="reinstall eagle3-checks")


def _hub() -> Fact:
    """Ask the hub whether it answers; local folders need none."""
    import requests  # noqa: PLC0415 - `doctor` alone pays for it

    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        return Fact(name="hub", text="off (HF_HUB_OFFLINE); local folders and the cache remain")
    where = os.environ.get("HF_ENDPOINT", HUB).rstrip("/")
    token = "a token is set" if os.environ.get("HF_TOKEN") else "no HF_TOKEN, for gated models"
    try:
        status = requests.head(where, timeout=HUB_SECONDS, allow_redirects=True).status_code
    except requests.RequestException as error:
        told = f"{where} cannot be reached ({type(error).__name__}); local folders remain"
        return Fact(name="hub", text=told)
    if status >= HTTPStatus.BAD_REQUEST:
        return Fact(name="hub", text=f"{where} answers {status}; local folders remain")
    return Fact(name="hub", text=f"{where} answers; {token}")


def _port() -> Fact:
    try:
        with ReservedPort("127.0.0.1") as port:
            return Fact(name="ports", text=f"free ones on 127.0.0.1, {port.port} for one")
    except PortTakenError as error:
        return Fact(name="ports", text="none free on 127.0.0.1", fix=str(error))


def _disks() -> Iterator[Fact]:
    for name, path in (("disk", Path.cwd()), ("temporary", Path(tempfile.gettempdir()))):
        free = shutil.disk_usage(path).free
        fix = "" if free > GIB else f"free a gibibyte in {path} for logs and results"
        yield Fact(name=name, text=f"{free / GIB:.0f} GiB free in {path}", fix=fix)
    shared = Path("/dev/shm")  # noqa: S108 - POSIX shared memory, where ranks meet
    if shared.is_dir():
        free = shutil.disk_usage(shared).free
        advice = "" if free > LEAST_SHM else "give the container more: --shm-size 32g"
        yield Fact(name="shared", text=f"{free / GIB:.1f} GiB free in {shared}", advice=advice)


def _leftovers() -> Fact:
    found = remains()
    if not (found.processes or found.folders):
        return Fact(name="leftovers", text="none of earlier runs")
    text = f"of earlier runs: {len(found.processes)} processes, {len(found.folders)} folders"
    return Fact(name="leftovers", text=text, advice=found.command)
