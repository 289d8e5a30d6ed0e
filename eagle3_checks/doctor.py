"""What this machine can do: one line a fact, exit 0 only where a gate can run."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from eagle3_checks.contract.version import ContractError, contract_for
from eagle3_checks.server.device import detect_device
from eagle3_checks.shipped import shipped
from eagle3_checks.verdict import ExitCode

GIB = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One thing found, and what to do where it keeps a gate from running."""

    name: str
    text: str
    fix: str = ""


def examine(out: TextIO) -> ExitCode:
    """Print what was found; PASS where a gate can run, FAIL where something must be done first."""
    facts = tuple(_facts())
    for fact in facts:
        out.write(f"{fact.name:12}{fact.text}\n")
        if fact.fix:
            out.write(f"{'':12}-> {fact.fix}\n")
    ready = not any(fact.fix for fact in facts)
    out.write("a gate can run here\n" if ready else "a gate cannot run here yet\n")
    return ExitCode.PASS if ready else ExitCode.FAIL


def _facts() -> Iterator[Fact]:
    yield Fact(name="python", text=f"{platform.python_version()} at {sys.executable}")
    yield _sglang()
    device = detect_device()
    yield Fact(name="gpu", text="an NVIDIA GPU" if device else "none: the CPU engine remains")
    yield _shipped()
    free = shutil.disk_usage(Path.cwd()).free / GIB
    yield Fact(
        name="disk",
        text=f"{free:.0f} GiB free in the working folder",
        fix="" if free > 1 else "free a gibibyte for logs and results",
    )


def _sglang() -> Fact:
    try:
        version = importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        return Fact(
            name="sglang",
            text="not installed in this interpreter",
            fix="pip install 'eagle3-checks[sglang]', or name another interpreter in server.python",
        )
    try:
        contract = contract_for(version)
    except ContractError as error:
        return Fact(name="sglang", text=version, fix=str(error))
    cpu = "EAGLE-3 on the CPU engine" if contract.cpu_eagle else "no EAGLE-3 on the CPU"
    return Fact(name="sglang", text=f"{version}, judged as {contract.name}; {cpu}")


def _shipped() -> Fact:
    tiny = shipped("fixtures", "tiny", "drafter", "model.safetensors")
    if tiny.is_file():
        return Fact(name="tiny pair", text=f"at {tiny.parent.parent}")
    return Fact(name="tiny pair", text="missing", fix="reinstall eagle3-checks")
