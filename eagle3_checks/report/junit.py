"""Findings as properties of JUnit XML: of each test, and of the suite.

Properties of a test travel in its report, so they survive xdist; those of the suite are set on the
controller before pytest writes the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from eagle3_checks.report.result import harmless
from eagle3_checks.verdict import Finding, Status

PREFIX = "eagle3."
_WORST = (Status.FAIL, Status.INCONCLUSIVE, Status.PASS, Status.SKIP)

Property = tuple[str, str]


def properties(findings: Sequence[Finding]) -> list[Property]:
    """Return the properties of a test that judged one rule; the worst finding gives its status."""
    if not findings:
        return []
    worst = min(findings, key=lambda f: (not f.is_error, _WORST.index(f.status)))
    named = {
        "code": worst.code,
        "status": worst.status.value,
        "severity": worst.severity.value,
        "message": "\n".join(f.message for f in findings if f.status is worst.status),
        "measured": _figure(
            worst.evidence, ("value", "change", "width", "fc_in"), "tokens_per_second"
        ),
        "floor": _figure(worst.evidence, ("floor", "margin", "wanted"), "floor"),
    }
    return [(PREFIX + name, harmless(text)) for name, text in named.items() if text]


def suite_properties(result: Mapping[str, Any]) -> Iterator[Property]:
    """Yield the properties of a whole run."""
    subject = result["subject"]
    yield PREFIX + "verdict", result["verdict"]
    yield PREFIX + "tool_version", result["tool_version"]
    for name in ("target", "drafter", "sglang"):
        if subject.get(name):
            yield PREFIX + name, str(subject[name])
    drafter_hash = (subject.get("hashes") or {}).get("drafter")
    if drafter_hash:
        yield PREFIX + "drafter_hash", str(drafter_hash)
    if result["causes"]:
        codes = dict.fromkeys(cause["code"] for cause in result["causes"])
        yield PREFIX + "causes", " ".join(codes)
        named = (f"{cause['name']} ({cause['confidence']})" for cause in result["causes"])
        yield PREFIX + "diagnosis", ", ".join(named)
    measured = result["measurements"].get("acceptance") or {}
    length = measured.get("accept_length")
    if length:
        yield PREFIX + "accept_length", _number(length["value"])
        for bound in ("low", "high"):
            if length[bound] is not None:
                yield f"{PREFIX}accept_length_{bound}", _number(length[bound])
        yield PREFIX + "verify_steps", str(measured["verify_steps"])


def add_suite_properties(plugins: Iterable[Any], result: Mapping[str, Any]) -> None:
    """Hand the properties of the suite to pytest's JUnit plugin, where it is among the plugins.

    The fixture for it (``record_testsuite_property``) does not reach an xdist controller.
    """
    for plugin in plugins:
        add = getattr(plugin, "add_global_property", None)
        if add is not None:
            for name, value in suite_properties(result):
                add(name, value)


def _figure(evidence: Mapping[str, Any], names: Sequence[str], each: str) -> str:
    """Read a figure by the first name there is, or one for each concurrency."""
    for name in names:
        value = evidence.get(name)
        if isinstance(value, int | float):
            return _number(value)
    several = {
        key: entry[each]
        for key, entry in evidence.items()
        if isinstance(entry, Mapping) and isinstance(entry.get(each), int | float)
    }
    return ", ".join(f"{key}: {_number(value)}" for key, value in several.items())


def _number(value: float) -> str:
    return f"{value:.6g}"
