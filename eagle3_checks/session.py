"""The gate inside a pytest session: opening it, its result, report and exit code.

Under xdist one worker runs the gate and hands its result to the controller, which alone reports
and sets the exit code.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from eagle3_checks.gate import Gate
from eagle3_checks.measure.progress import SILENT, Progress
from eagle3_checks.profile import Resolved
from eagle3_checks.report.actions import annotate, append_summary, paused
from eagle3_checks.report.from_gate import gate_result
from eagle3_checks.report.html import write_html
from eagle3_checks.report.junit import add_suite_properties
from eagle3_checks.report.progress import TerminalProgress
from eagle3_checks.report.result import Result, build_result, write_json
from eagle3_checks.report.terminal import render, terminal_width
from eagle3_checks.rules.selection import Selection
from eagle3_checks.verdict import ExitCode, Verdict, exit_code

WORKER_KEY = "eagle3_result"
CONCERNED_KEY = "eagle3_concerned"
RULE_FAILURE = re.compile(r"(\[[^\]]*\] .*\n)?[A-Z]{3}\d{3} ")
"""How a test that `check` failed begins; under xdist with a line about the worker."""
HOW_TO_RUN = """\
nothing was measured: no drafter was given. The tiny pair runs on any Linux machine without a GPU:
    {command} tiny
and your own drafter with a profile of yours (docs/profiles.md has every key):
    {command} FILE"""


class GateSession:
    """State of one pytest session that asked for the gate."""

    def __init__(
        self, config: pytest.Config, resolved: Resolved, selection: Selection, *, named: bool = True
    ) -> None:
        """Nothing runs yet; `named`: an option or the environment asks for the gate."""
        self.concerned = named
        self.resolved = resolved
        self.selection = selection
        self.config = config
        self.result: Result | None = None
        self.unwritten: dict[str, str] = {}
        self._gate: Gate | None = None

    @property
    def not_run_reason(self) -> str:
        """Why this session can measure nothing, or nothing."""
        profile = self.resolved.profile
        if not (profile.drafter.path or profile.server.url):
            flag = f"{self._front} {self._prefix}profile"
            return HOW_TO_RUN.format(command=flag)
        return ""

    @property
    def _front(self) -> str:
        """The command the session was started by."""
        return str(self.config.option.eagle3_front)

    @property
    def _prefix(self) -> str:
        """What that command's options begin with."""
        return "--eagle3-" if self._front.startswith("pytest") else "--"

    def open_gate(self) -> Gate:
        """Make the gate of this session."""
        if self.not_run_reason:
            pytest.skip(self.not_run_reason.partition("\n")[0])
        option = self.config.option
        self._gate = Gate(
            self.resolved,
            option.eagle3_artefacts,
            keep_going=option.eagle3_keep_going,
            progress=self._progress(),
            selection=self.selection,
        )
        return self._gate

    def meet(self, gate_tests: Sequence[pytest.Item]) -> None:
        """See what was collected: ``-m gpu`` is a gate only where tests of the gate are there."""
        self.concerned = self.concerned or bool(gate_tests)

    def collect(self) -> None:
        """Take the result while the server still runs; called before the gate closes."""
        if self._gate is not None:
            self.result = gate_result(self._gate, reproduce=self._command())

    def receive(self, output: Mapping[str, Any]) -> None:
        """Take a worker's result; the last one that measured something stays."""
        self.concerned = self.concerned or bool(output.get(CONCERNED_KEY))
        if WORKER_KEY in output:
            self.result = json.loads(output[WORKER_KEY])

    def publish(self) -> None:
        """Give the result to JUnit XML, which pytest writes as the session ends."""
        if getattr(self.config, "workeroutput", None) is not None:
            return
        if self.result is None:
            self.collect()  # the gate is still open where a run ends early, as with -x
        if self.result is not None:
            add_suite_properties(self.config.pluginmanager.get_plugins(), self.result)

    def finish(self, session: pytest.Session) -> None:
        """Publish the result to the controller, or write it and set the exit code."""
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output[CONCERNED_KEY] = self.concerned
            if self.result is not None:
                output[WORKER_KEY] = json.dumps(self.result)
            return
        if self.config.option.collectonly or not self.concerned:
            return
        bisect = self.config.option.eagle3_bisect
        status = int(session.exitstatus)
        if status in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR):
            self._leave_open("the run was interrupted")
            session.exitstatus = ExitCode.BISECT_SKIP if bisect else status
            return
        if self.result is None:
            self.result = self._nothing_measured()
        if any("gpu" in report.keywords or _crashed(report) for report in self._broken()):
            self._leave_open("a test of the gate broke off; its failure is above")
        code = int(exit_code(Verdict(self.result["verdict"]), bisect=bisect))
        others_failed = status == pytest.ExitCode.TESTS_FAILED and code == ExitCode.PASS
        if others_failed:
            code = ExitCode.BISECT_SKIP if bisect else ExitCode.FAIL
        self._write()
        if self.unwritten and code == ExitCode.PASS:
            code = ExitCode.BISECT_SKIP if bisect else pytest.ExitCode.USAGE_ERROR
        session.exitstatus = code
        self._tell_once()

    def _write(self) -> None:
        """Write what was asked for; a place that cannot be written is told, not raised."""
        option = self.config.option
        writers = (
            ("result", option.eagle3_json, write_json),
            ("page", option.eagle3_html, write_html),
        )
        for name, path, write in writers:
            try:
                if path and self.result is not None:
                    write(self.result, path)
            except OSError as error:
                self.unwritten[name] = f"{path} cannot be written: {error.strerror}"

    def _tell_once(self) -> None:
        """Leave out pytest's own section of failures where the report holds all of them."""
        if self.result and not self._broken():
            self.config.option.tbstyle = "no"

    def _broken(self) -> list[pytest.TestReport]:
        """Return the reports of tests that failed otherwise than by a rule."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        stats = reporter.stats if reporter else {}
        failed = [*stats.get("failed", []), *stats.get("error", [])]
        return [report for report in failed if not RULE_FAILURE.match(report.longreprtext)]

    def _leave_open(self, why: str) -> None:
        """Make nothing of a run that did not come to its end, unless it has found an error."""
        if self.result and self.result["verdict"] != Verdict.FAIL:
            self.result["verdict"] = Verdict.INCONCLUSIVE.value
            self.result["measurements"]["blocked"] = why

    def print_report(self, reporter: Any) -> None:
        """Print the report at the end of the controller's output."""
        if getattr(self.config, "workeroutput", None) is not None or self.result is None:
            return
        on_github = os.environ.get("GITHUB_ACTIONS") == "true"
        pause, go_on = paused()
        if on_github:
            reporter.write_line(pause)
        reporter.section("EAGLE-3 gate", sep="=")
        buffer = io.StringIO()  # pytest still captures stdout here; its reporter does not
        colour = reporter.hasmarkup and not os.environ.get("NO_COLOR")
        console = Console(
            file=buffer, width=terminal_width(), force_terminal=colour, no_color=not colour
        )
        render(self.result, console, verbose=self.config.option.verbose > 0)
        reporter.write(buffer.getvalue())
        if self.not_run_reason:
            reporter.write_line("\n" + self.not_run_reason)
        for name, path in self._written().items():
            if name not in self.unwritten:
                reporter.write_line(f"{name:<10} {path}")
        for name, why in self.unwritten.items():
            reporter.write_line(f"{name:<10} {why}", red=True)
        if on_github:
            reporter.write_line(go_on)
            self._tell_github(reporter)

    def _written(self) -> dict[str, Path]:
        option = self.config.option
        paths = {"result": option.eagle3_json, "page": option.eagle3_html}
        return {name: path for name, path in paths.items() if path}

    def _tell_github(self, reporter: Any) -> None:
        """Annotate the workflow's run, and append to its summary."""
        if self.result is None:
            return
        for line in annotate(self.result, os.environ.get("GITHUB_WORKSPACE", "")):
            reporter.write_line(line)
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary:
            try:
                append_summary(self.result, Path(summary))
            except OSError as error:
                reporter.write_line(f"no step summary: {error}")

    def _progress(self) -> Progress:
        """Return a progress line where a person watches: a terminal, and no xdist worker."""
        manager = self.config.pluginmanager
        reporter, capture = (manager.get_plugin(n) for n in ("terminalreporter", "capturemanager"))
        if reporter is None or capture is None or not reporter.isatty:
            return SILENT
        if getattr(self.config, "workeroutput", None) is not None or sys.__stdout__ is None:
            return SILENT
        return TerminalProgress(sys.__stdout__, capture.global_and_fixture_disabled)

    def _nothing_measured(self) -> Result:
        profile = self.resolved.profile
        return build_result(
            verdict=Verdict.NOT_RUN,
            findings=(),
            subject={"target": profile.target.path, "drafter": profile.drafter.path},
            resolved=self.resolved,
            reproduce=self._command(),
        )

    def _command(self) -> str:
        """Return the one command that repeats this gate."""
        option = self.config.option
        words = []
        names = ("profile", "target", "draft", "url", "device", "tp", "gpus", "baseline")
        for name in (*names, "compare-base", "replay"):
            value = getattr(option, f"eagle3_{name.replace('-', '_')}")
            if value:
                words += [f"{self._prefix}{name}", str(value)]
        for name in ("keep-going", "attach-anyway"):
            if getattr(option, f"eagle3_{name.replace('-', '_')}"):
                words.append(f"{self._prefix}{name}")
        for name in ("select", "ignore"):
            for value in getattr(option, f"eagle3_{name}"):
                words += [f"{self._prefix}{name}", value]
        return f"{self._variables()}{self._front} {shlex.join(words)}".rstrip()

    def _variables(self) -> str:
        """Return the settings that came from the environment, as they stand before a command.

        `server.env` may hold secrets, and stays where it was set.
        """
        marks = [
            origin.removeprefix("environment ")
            for key, origin in sorted(self.resolved.origins.items())
            if origin.startswith("environment ") and key != "server.env"
        ]
        return "".join(f"{name}={shlex.quote(os.environ.get(name, ''))} " for name in marks)


def _crashed(report: pytest.TestReport) -> bool:
    """Whether an xdist worker ended in this test; its report has neither keywords nor a phase."""
    return str(report.when) == "???"


def one_worker_scheduling(config: pytest.Config, log: Any) -> Any:
    """Return an xdist scheduler that sends all tests to one worker."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - only with xdist

    class OneWorkerScheduling(LoadScopeScheduling):  # type: ignore[misc] # xdist is untyped here
        """One scope. Groups (`--dist loadgroup`) do not take with pytest 9.2 and xdist 3.8."""

        def _split_scope(self, nodeid: str) -> str:
            del nodeid
            return "eagle3"

    return OneWorkerScheduling(config, log)
