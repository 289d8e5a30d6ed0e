"""The pytest plugin: options, markers, fixtures and the exit code. Hooks only.

It costs a session that does not ask for it next to nothing: everything heavier than pytest is
imported where it is used.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from eagle3_checks.facts import DraftConfig, ServerSeen
    from eagle3_checks.gate import Gate
    from eagle3_checks.session import GateSession

_SESSION: pytest.StashKey[GateSession | None] = pytest.StashKey()

_OVERRIDES = {
    "eagle3_target": "target.path",
    "eagle3_draft": "drafter.path",
    "eagle3_url": "server.url",
    "eagle3_device": "server.device",
}
_SETTINGS = _OVERRIDES | {
    "eagle3_baseline": "baseline.path",
    "eagle3_update_baseline": "baseline.update",
    "eagle3_attach_anyway": "server.attach_anyway",
    "eagle3_gpus": "server.gpus",
    "eagle3_tp": "server.tp",
    "eagle3_compare_base": "speed.compare_base",
    "eagle3_replay": "replay.source",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the gate's options, all with the prefix ``--eagle3-``."""
    group = parser.getgroup("eagle3", "EAGLE-3 drafter gate")
    add = group.addoption
    add("--eagle3-profile", metavar="FILE|NAME", help="profile to judge: a TOML file or `tiny`")
    add("--eagle3-target", metavar="MODEL", help="target: a folder or hub id")
    add("--eagle3-draft", metavar="MODEL", help="drafter: a folder or hub id")
    add("--eagle3-url", metavar="URL", help="attach to a running server; it is never stopped")
    add(
        "--eagle3-attach-anyway",
        action="store_true",
        default=None,
        help="measure a running server although it is not the profile's",
    )
    add("--eagle3-device", choices=("auto", "cuda", "cpu"), help="where the server runs")
    add("--eagle3-tp", metavar="N", type=int, help="tensor parallel size of the server")
    add(
        "--eagle3-gpus",
        metavar="N",
        type=int,
        help="GPUs of this host that gates share out among them, --eagle3-tp to each",
    )
    add(
        "--eagle3-baseline",
        metavar="DIR|FILE",
        help="compare with the recorded run of the same key, or record the first; a FILE is "
        "compared with whatever its key",
    )
    add(
        "--eagle3-update-baseline",
        action="store_true",
        default=None,
        help="make this run the baseline",
    )
    add(
        "--eagle3-compare-base",
        metavar="URL",
        nargs="?",
        const="launch",
        help="measure speed without speculation too: on a second launch, or at URL",
    )
    add(
        "--eagle3-replay",
        choices=("none", "transformers", "server"),
        nargs="?",
        const="transformers",
        help="run the drafter offline too, on the target's true aux states: from transformers, or "
        "from a server without a drafter",
    )
    add("--eagle3-json", metavar="FILE", type=Path, help="write the result as JSON")
    add("--eagle3-html", metavar="FILE", type=Path, help="write the report as one HTML page")
    add(
        "--eagle3-artefacts",
        metavar="DIR",
        type=Path,
        default=Path("eagle3-artefacts"),
        help="folder for logs and probe facts (default: %(default)s)",
    )
    add(
        "--eagle3-keep-going",
        action="store_true",
        help="start the server although the files have errors",
    )
    add(
        "--eagle3-select",
        metavar="CODE[,CODE]",
        action="append",
        default=[],
        help="judge by these rules alone; KEY means the family",
    )
    add(
        "--eagle3-ignore",
        metavar="CODE=REASON",
        action="append",
        default=[],
        help="show what a rule finds, with your reason, and let it decide nothing",
    )
    add("--eagle3-front", default="pytest -m gpu", help=argparse.SUPPRESS)
    add(
        "--eagle3-bisect",
        action="store_true",
        help="exit 0 for good, 1 for bad, 125 for all else, as `git bisect run` wants",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register markers; resolve the profile where the session asks for the gate."""
    config.addinivalue_line("markers", "gpu: part of the gate; needs a profile or a GPU")
    config.addinivalue_line("markers", "rule(code): the rule a test asks about, as in KEY001")
    config.addinivalue_line("markers", "serve: starts the real SGLang server on the CPU engine")
    config.addinivalue_line("markers", "slow: takes minutes")
    config.stash[_SESSION] = None
    if not _asked(config):
        return
    from eagle3_checks.measure.prompts import PromptError, load_prompts  # noqa: PLC0415
    from eagle3_checks.rules.selection import (  # noqa: PLC0415 - see the module's docstring
        SelectionError,
        parse_selection,
    )
    from eagle3_checks.session import GateSession  # noqa: PLC0415
    from eagle3_checks.settings import ProfileError, resolve  # noqa: PLC0415
    from eagle3_checks.verdict import ExitCode  # noqa: PLC0415

    option = config.option
    if option.eagle3_html:
        _require_pages()
    overrides = {key: getattr(option, dest) for dest, key in _SETTINGS.items()}
    try:
        resolved = resolve(option.eagle3_profile, overrides)
        selection = parse_selection(option.eagle3_select, option.eagle3_ignore)
        load_prompts(resolved.profile.prompts)
    except (ProfileError, SelectionError, PromptError) as error:
        if option.eagle3_bisect:  # where pytest's own 4 would be taken for a bad commit
            pytest.exit(f"{error}", returncode=ExitCode.BISECT_SKIP)
        raise pytest.UsageError(str(error)) from None
    config.stash[_SESSION] = GateSession(config, resolved, selection, named=_named(config))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the gate's tests, or those of rules that were not selected."""
    session = config.stash[_SESSION]
    gate_items = [item for item in items if _of_the_gate(item)]
    if session is not None:
        session.meet(gate_items)
        rules = [(item, item.get_closest_marker("rule")) for item in gate_items]
        gate_items = [i for i, rule in rules if rule and not session.selection.takes(rule.args[0])]
    config.hook.pytest_deselected(items=gate_items)
    items[:] = [item for item in items if item not in gate_items]


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep a gate on one xdist worker: its tests share one server."""
    session = config.stash[_SESSION]
    if session is None or not session.concerned:
        return None
    from eagle3_checks.session import one_worker_scheduling  # noqa: PLC0415

    return one_worker_scheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the result from the xdist worker that ran the gate."""
    session = node.config.stash[_SESSION]
    if session is not None:
        session.receive(getattr(node, "workeroutput", {}))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Give the result to JUnit XML before it is written; then write the gate's, set its code."""
    gate_session = session.config.stash[_SESSION]
    if gate_session is not None:
        gate_session.publish()
    outcome = yield
    if gate_session is not None:
        gate_session.finish(session)
    return outcome


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the gate's report."""
    session = config.stash[_SESSION]
    if session is not None:
        session.print_report(terminalreporter)


@pytest.fixture(scope="session")
def gate(pytestconfig: pytest.Config) -> Generator[Gate]:
    """One gate run over the session's profile; its stages run when something asks for them."""
    session = pytestconfig.stash[_SESSION]
    if session is None:
        pytest.fail("no gate was asked for: give --eagle3-profile FILE|NAME", pytrace=False)
    with session.open_gate() as opened:
        yield opened
        opened.complete()
        session.collect()


@pytest.fixture
def check(gate: Gate, request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Judge one rule by its code: returns when it passed, fails or skips the test otherwise.

    The findings become properties of the test in JUnit XML.
    """
    from eagle3_checks.report.assertion import assert_rule  # noqa: PLC0415
    from eagle3_checks.report.junit import properties  # noqa: PLC0415

    def judge(code: str) -> None:
        findings = gate.findings_of(code)
        request.node.user_properties.extend(properties(findings))
        assert_rule(findings)

    return judge


@pytest.fixture(scope="session")
def eagle3_server(gate: Gate) -> ServerSeen:
    """The ready SGLang server: launched for this session, or attached to by --eagle3-url."""
    return gate.server


@pytest.fixture(scope="session")
def drafter(gate: Gate) -> DraftConfig:
    """The drafter's config, from its files."""
    return gate.files.draft


def _require_pages() -> None:
    """Refuse at once what could not be written after the measurements. Raises UsageError."""
    from eagle3_checks.report.html import MissingExtraError, require_jinja  # noqa: PLC0415

    try:
        require_jinja()
    except MissingExtraError as error:
        raise pytest.UsageError(f"--eagle3-html: {error}") from None


def _named(config: pytest.Config) -> bool:
    """Whether an option or the environment asks for a gate."""
    given = any(getattr(config.option, name) for name in ("eagle3_profile", *_OVERRIDES))
    return given or any(
        os.environ.get(f"EAGLE3_CHECKS_{name}") for name in ("PROFILE", "DRAFT", "URL")
    )


def _asked(config: pytest.Config) -> bool:
    """Whether this session may be a gate: it is named, or ``-m gpu`` was given."""
    words = (config.option.markexpr or "").replace("(", " ").replace(")", " ").split()
    return _named(config) or ("gpu" in words and "not" not in words)


def _of_the_gate(item: pytest.Item) -> bool:
    """Whether a test belongs to the gate; `gpu` alone is a marker that other projects use too."""
    return bool(item.get_closest_marker("gpu")) and "gate" in getattr(item, "fixturenames", ())
