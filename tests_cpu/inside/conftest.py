"""The code that runs inside SGLang, loaded as SGLang's processes would see it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

INSIDE = Path(__file__).parents[2] / "eagle3_checks" / "inside"


def _load_package(name: str, folder: Path) -> Any:
    """Import a package from its folder; the path stays as it is."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            name, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def kernels() -> Any:
    """The CPU kernels, under a name of their own: an environment with SGLang has the CUDA wheel."""
    return _load_package("eagle3_cpu_kernels", INSIDE / "cpu" / "sgl_kernel")


@pytest.fixture(scope="session")
def probe() -> Any:
    """The probe package with its modules as attributes."""
    package = _load_package("eagle3_probe", INSIDE / "probe" / "eagle3_probe")
    for module in (
        "capture",
        "dataflow",
        "digest",
        "drafts",
        "forward",
        "hooks",
        "load",
        "prefill",
        "record",
    ):
        importlib.import_module(f"eagle3_probe.{module}")
    return package


@pytest.fixture(scope="session")
def damage() -> Any:
    """The damaging plugin with its modules as attributes."""
    package = _load_package("eagle3_damage", INSIDE / "damage" / "eagle3_damage")
    for module in ("drafter", "hooks", "table", "target", "verify"):
        importlib.import_module(f"eagle3_damage.{module}")
    return package


class Facts:
    """A recorder for the code under test, and what it wrote."""

    def __init__(self, prefix: Path, recorder: Any) -> None:
        self._prefix = prefix
        self.recorder = recorder

    def lines(self) -> list[dict[str, Any]]:
        paths = sorted(self._prefix.parent.glob(f"{self._prefix.name}.*.jsonl"))
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    def of(self, fact: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["fact"] == fact]

    def only(self, fact: str) -> dict[str, Any]:
        (line,) = self.of(fact)
        assert not self.of("error")
        return line


@pytest.fixture
def facts(probe: Any, tmp_path: Path) -> Facts:
    prefix = tmp_path / "facts"
    return Facts(prefix, probe.record.Recorder(str(prefix)))
