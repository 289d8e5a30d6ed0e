"""The command line: inspect, gate, explain, doctor."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from eagle3_checks.verdict import ExitCode

GATE_EPILOG = """\
exit codes: 0 pass, 1 fail, 2 usage or interrupted, 7 inconclusive (too noisy, no
server, a figure missing), 8 not run (nothing was measured); with --bisect: 0 good,
1 bad, 125 all else.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="eagle3-checks",
        description="Tell, before a deploy, whether an EAGLE-3 drafter will really speculate "
        "when SGLang serves it, and where not, why.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    parser.set_defaults(run=lambda a: _version() if a.version else _usage(parser))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    inspect = commands.add_parser(
        "inspect",
        help="judge a drafter's files (seconds; needs neither torch nor sglang)",
        description="Judge a drafter from its files alone. Exit 0 without errors, 1 with.",
    )
    inspect.add_argument("drafter", metavar="DRAFTER", help="folder of the drafter")
    inspect.add_argument("--target", metavar="TARGET", default="", help="folder of the target")
    inspect.add_argument(
        "--sglang", metavar="X.Y.Z", default="", help="judge for this version (default: newest)"
    )
    inspect.add_argument("--format", choices=("text", "json"), default="text")
    inspect.add_argument("--verbose", "-v", action="store_true", help="list passes and skips too")
    inspect.set_defaults(run=_inspect)

    gate = commands.add_parser(
        "gate",
        help="serve the drafter with SGLang, look inside, measure, judge",
        description="Run the gate: the tests of tests_gpu through pytest.",
        epilog=GATE_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    gate.add_argument("--profile", metavar="FILE|NAME", help="a TOML file, or `tiny`")
    gate.add_argument("--target", metavar="MODEL", help="folder or hub id")
    gate.add_argument("--draft", metavar="MODEL", help="folder or hub id")
    gate.add_argument("--url", metavar="URL", help="attach to a running server")
    gate.add_argument("--device", choices=("auto", "cuda", "cpu"))
    gate.add_argument("--baseline", metavar="DIR", help="compare with a recorded run, or record")
    gate.add_argument("--update-baseline", action="store_true", help="record this run")
    gate.add_argument(
        "--compare-base", metavar="URL", nargs="?", const="launch", help="speed without speculation"
    )
    gate.add_argument("--json", metavar="OUT", help="write the result as JSON")
    gate.add_argument("--html", metavar="OUT", help="write the report as one HTML page")
    gate.add_argument("--artefacts", metavar="DIR", default="eagle3-artefacts")
    gate.add_argument("--keep-going", action="store_true", help="serve in spite of file errors")
    gate.add_argument("--bisect", action="store_true", help="exit 0, 1 or 125")
    gate.add_argument("--verbose", "-v", action="store_true", help="list passes and skips too")
    gate.add_argument("pytest_args", nargs="*", metavar="-- PYTEST_ARGS", help="passed to pytest")
    gate.set_defaults(run=_gate)

    explain = commands.add_parser("explain", help="explain a rule by its code, or list all rules")
    explain.add_argument("code", metavar="CODE", nargs="?", help="as in KEY001; all where left out")
    explain.set_defaults(run=_explain)

    doctor = commands.add_parser("doctor", help="say what this machine can do")
    doctor.set_defaults(run=_doctor)
    return parser


def _usage(parser: argparse.ArgumentParser) -> int:
    parser.print_help(sys.stderr)
    return ExitCode.USAGE


def _version() -> int:
    from eagle3_checks.report.result import tool_version  # noqa: PLC0415 - keeps --help quick

    print(f"eagle3-checks {tool_version()}")
    return ExitCode.PASS


def _inspect(arguments: argparse.Namespace) -> int:
    from eagle3_checks import inspection  # noqa: PLC0415 - keeps --help quick
    from eagle3_checks.contract.version import ContractError  # noqa: PLC0415

    try:
        result = inspection.inspect(arguments.drafter, arguments.target, arguments.sglang)
    except ContractError as error:
        print(f"eagle3-checks inspect: {error}", file=sys.stderr)
        return ExitCode.USAGE
    if arguments.format == "json":
        print(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        _print_report(result, verbose=arguments.verbose)
    return ExitCode.FAIL if result["verdict"] == "fail" else ExitCode.PASS


def _print_report(result: dict[str, object], *, verbose: bool) -> None:
    from rich.console import Console  # noqa: PLC0415 - JSON output does without

    from eagle3_checks.report.terminal import render, terminal_width  # noqa: PLC0415

    render(result, Console(width=terminal_width()), verbose=verbose)


def _gate(arguments: argparse.Namespace) -> int:
    import pytest  # noqa: PLC0415 - keeps --help quick

    from eagle3_checks.shipped import shipped  # noqa: PLC0415

    tests = shipped("tests_gpu")
    words = [
        str(tests),
        "-m",
        "gpu",
        "-c",
        str(Path(__file__).with_name("gate.ini")),
        "--rootdir",
        str(tests),
        "-p",
        "no:cacheprovider",
        "--eagle3-artefacts",
        arguments.artefacts,
    ]
    for name in (
        "profile",
        "target",
        "draft",
        "url",
        "device",
        "json",
        "html",
        "baseline",
        "compare_base",
    ):
        value = getattr(arguments, name)
        if value:
            words += [f"--eagle3-{name.replace('_', '-')}", value]
    for name in ("keep_going", "bisect", "update_baseline"):
        if getattr(arguments, name):
            words.append(f"--eagle3-{name.replace('_', '-')}")
    if arguments.verbose:
        words.append("-v")
    code = int(pytest.main([*words, *arguments.pytest_args]))
    if arguments.bisect and code not in (ExitCode.PASS, ExitCode.FAIL):
        return ExitCode.BISECT_SKIP
    return code


def _explain(arguments: argparse.Namespace) -> int:
    from eagle3_checks.report.explain import explain, listing  # noqa: PLC0415 - quick --help

    if not arguments.code:
        print(listing())
        return ExitCode.PASS
    try:
        print(explain(arguments.code))
    except KeyError as error:
        print(f"eagle3-checks explain: {error.args[0]}", file=sys.stderr)
        return ExitCode.USAGE
    return ExitCode.PASS


def _doctor(_: argparse.Namespace) -> int:
    from eagle3_checks.doctor import examine  # noqa: PLC0415 - keeps --help quick

    return examine(sys.stdout)
