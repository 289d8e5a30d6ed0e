"""The command line, a function for each command that has no module of its own."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from eagle3_checks.arguments import add_replay
from eagle3_checks.bisect import command as bisect
from eagle3_checks.compare import command as compare
from eagle3_checks.selftest import command as selftest
from eagle3_checks.sweep import command as sweep
from eagle3_checks.verdict import ExitCode, Verdict, exit_code

SOURCE = "a folder, or a hub id org/name[@revision]"
INSPECT_TEXT = f"""\
Judge a drafter from its files alone: {SOURCE}.
Of a hub id, config, safetensors headers, d2t and t2d are read by range requests,
never the weights.
"""
INSPECT_EPILOG = """\
exit codes: 0 no errors, 1 errors, 2 usage, 8 nothing could be judged.
"""
DOCTOR = "say what this machine can do"
REPACKAGE_TEXT = """\
Write a drafter anew as a SGLang version reads it: tensor names, architectures,
nested sizes, aux layer ids, a tie that cannot be, d2t as int64. Weights stay the
same to the bit. Nothing is written where a fix would be a guess.
"""
REPACKAGE_EPILOG = """\
exit codes: 0 OUT is written and has no errors, 1 refused or errors left, 2 usage.
"""
GATE_EPILOG = """\
exit codes: 0 pass, 1 fail, 7 inconclusive (too noisy, no server, a figure missing),
8 not run (nothing was measured); 2 for an option that is not known here; and
pytest's own: 2 interrupted, 3 internal error, 4 usage (a profile or path that
cannot be used). With --bisect: 0 good, 1 bad, 125 all else.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names a terminal cannot show
    try:
        arguments = _parser().parse_args(argv)
        return int(arguments.run(arguments))
    except SystemExit as end:
        if end.code and "--bisect" in (sys.argv if argv is None else argv):
            return ExitCode.BISECT_SKIP  # 2 would be taken for a bad commit
        raise
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        print(f"eagle3-checks: {error.strerror}: {error.filename or 'output'}", file=sys.stderr)
        return ExitCode.USAGE


def _given(text: str) -> str:
    """Refuse an empty argument: mostly a shell variable that is not set."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty; is a variable unset?")
    return text


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
        description=INSPECT_TEXT,
        epilog=INSPECT_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inspect.add_argument("drafter", metavar="DRAFTER", type=_given, help=f"the drafter: {SOURCE}")
    inspect.add_argument("--target", metavar="TARGET", type=_given, help="its target, likewise")
    inspect.add_argument(
        "--sglang",
        metavar="X.Y.Z",
        type=_given,
        help="judge for this version (default: newest)",
    )
    inspect.add_argument("--format", choices=("text", "json", "github"), default="text")
    inspect.add_argument(
        "--values",
        action="store_true",
        help="read the weights too (a hub id's are downloaded): NaN, zeros, rows never trained",
    )
    _add_selection(inspect)
    inspect.add_argument("--verbose", "-v", action="store_true", help="list passes and skips too")
    inspect.set_defaults(run=_inspect)

    gate = commands.add_parser(
        "gate",
        help="serve the drafter with SGLang, look inside, measure, judge",
        description="Run the gate: the tests of tests_gpu through pytest.",
        epilog=GATE_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    gate.add_argument("--profile", type=_given, metavar="FILE|NAME", help="a TOML file, or `tiny`")
    gate.add_argument("--target", type=_given, metavar="MODEL", help="folder or hub id")
    gate.add_argument("--draft", type=_given, metavar="MODEL", help="folder or hub id")
    gate.add_argument("--url", type=_given, metavar="URL", help="attach to a running server")
    gate.add_argument("--device", choices=("auto", "cuda", "cpu"))
    gate.add_argument("--baseline", metavar="DIR", help="compare with a recorded run, or record")
    gate.add_argument("--tp", metavar="N", help="tensor parallel size of the server")
    gate.add_argument("--gpus", metavar="N", help="GPUs that gates on this host share out")
    gate.add_argument(
        "--attach-anyway", action="store_true", help="measure a server that is not the profile's"
    )
    gate.add_argument("--update-baseline", action="store_true", help="record this run")
    gate.add_argument(
        "--compare-base", metavar="URL", nargs="?", const="launch", help="speed without speculation"
    )
    gate.add_argument(
        "--replay",
        choices=("none", "transformers", "server"),
        nargs="?",
        const="transformers",
        help="run the drafter offline too, on the target's true aux states",
    )
    gate.add_argument("--json", metavar="OUT", help="write the result as JSON")
    gate.add_argument("--html", metavar="OUT", help="write the report as one HTML page")
    gate.add_argument("--artefacts", metavar="DIR", default="eagle3-artefacts")
    _add_selection(gate)
    gate.add_argument("--keep-going", action="store_true", help="serve in spite of file errors")
    gate.add_argument("--bisect", action="store_true", help="exit 0, 1 or 125")
    gate.add_argument("--verbose", "-v", action="store_true", help="list passes and skips too")
    gate.add_argument("pytest_args", nargs="*", metavar="-- PYTEST_ARGS", help="passed to pytest")
    gate.set_defaults(run=_gate)

    bisect.add(commands)
    selftest.add(commands)
    compare.add(commands)
    sweep.add(commands)

    add_replay(commands, _given, _replay)

    repackage = commands.add_parser(
        "repackage",
        help="write a drafter anew as a SGLang version reads it",
        description=REPACKAGE_TEXT,
        epilog=REPACKAGE_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    repackage.add_argument("source", metavar="IN", help=f"the drafter: {SOURCE}")
    repackage.add_argument("out", metavar="OUT", type=Path, help="a new folder")
    repackage.add_argument("--sglang", metavar="X.Y.Z", default="", help="default: newest known")
    repackage.add_argument("--target", metavar="TARGET", default="", help="needed for aux ids")
    repackage.set_defaults(run=_repackage)

    explain = commands.add_parser("explain", help="explain a rule by its code, or list all rules")
    explain.add_argument(
        "code", metavar="CODE", nargs="?", help="as in KEY001; a family or none: a list"
    )
    explain.set_defaults(run=_explain)

    commands.add_parser("doctor", help=DOCTOR).set_defaults(run=_doctor)
    return parser


def _add_selection(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--select",
        metavar="CODE[,CODE]",
        action="append",
        default=[],
        help="judge by these rules alone; KEY means the family",
    )
    command.add_argument(
        "--ignore",
        metavar="CODE=REASON",
        action="append",
        default=[],
        help="show what a rule finds, with your reason, and let it decide nothing",
    )


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
    from eagle3_checks.rules.selection import SelectionError, parse_selection  # noqa: PLC0415

    try:
        selection = parse_selection(arguments.select, arguments.ignore)
        result = inspection.inspect(
            arguments.drafter,
            (arguments.target or ""),
            (arguments.sglang or ""),
            selection,
            values=arguments.values,
        )
    except (ContractError, SelectionError) as error:
        print(f"eagle3-checks inspect: {error}", file=sys.stderr)
        return ExitCode.USAGE
    if arguments.format == "json":
        print(json.dumps(result, indent=2, ensure_ascii=False))
    elif arguments.format == "github":
        from eagle3_checks.report.github import workflow_commands  # noqa: PLC0415

        print("\n".join(workflow_commands(result)))
    else:
        _print_report(result, verbose=arguments.verbose)
    return exit_code(Verdict(result["verdict"]))


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
        "--eagle3-front",
        "eagle3-checks gate",
    ]
    for name in (
        "profile",
        "target",
        "draft",
        "url",
        "device",
        "tp",
        "gpus",
        "json",
        "html",
        "baseline",
        "compare_base",
        "replay",
    ):
        value = getattr(arguments, name)
        if value:
            words += [f"--eagle3-{name.replace('_', '-')}", value]
    for name in ("select", "ignore"):
        for value in getattr(arguments, name):
            words += [f"--eagle3-{name}", value]
    for name in ("keep_going", "bisect", "update_baseline", "attach_anyway"):
        if getattr(arguments, name):
            words.append(f"--eagle3-{name.replace('_', '-')}")
    if arguments.verbose:
        words.append("-v")
    code = int(pytest.main([*words, *arguments.pytest_args]))
    if arguments.bisect and code not in (ExitCode.PASS, ExitCode.FAIL):
        return ExitCode.BISECT_SKIP
    return code


def _replay(arguments: argparse.Namespace) -> int:
    from eagle3_checks import offline  # noqa: PLC0415 - keeps --help quick

    return offline.run(arguments)


def _repackage(arguments: argparse.Namespace) -> int:
    from eagle3_checks.checkpoint.files import CheckpointError  # noqa: PLC0415 - quick --help
    from eagle3_checks.contract.version import ContractError  # noqa: PLC0415
    from eagle3_checks.repackage.run import RepackageError, repackage  # noqa: PLC0415
    from eagle3_checks.report.repackaged import lines  # noqa: PLC0415
    from eagle3_checks.report.result import tool_version  # noqa: PLC0415

    # A terminated process removes its unfinished folder as an interrupted one does.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        outcome = repackage(
            arguments.source,
            arguments.out,
            target=(arguments.target or ""),
            sglang=(arguments.sglang or ""),
            tool_version=tool_version(),
        )
    except (CheckpointError, ContractError, RepackageError, OSError) as error:
        print(f"eagle3-checks repackage: {error}", file=sys.stderr)
        usage = isinstance(error, ContractError | RepackageError)
        return ExitCode.USAGE if usage else ExitCode.FAIL
    finally:
        signal.signal(signal.SIGTERM, before)
    print("\n".join(lines(outcome, arguments.source, str(arguments.out))))
    return ExitCode.PASS if outcome.good else ExitCode.FAIL


def _explain(arguments: argparse.Namespace) -> int:
    from eagle3_checks.report.explain import explain, listing  # noqa: PLC0415 - quick --help
    from eagle3_checks.rules.selection import hint  # noqa: PLC0415

    code = arguments.code or ""
    try:
        text = explain(code)
    except KeyError:
        text = listing(code)
    if not text:
        print(f"eagle3-checks explain: no rule {code!r}; {hint(code)}", file=sys.stderr)
        return ExitCode.USAGE
    print(text)
    return ExitCode.PASS


def _doctor(_: argparse.Namespace) -> int:
    from eagle3_checks.doctor import examine  # noqa: PLC0415 - keeps --help quick

    return examine(sys.stdout)
