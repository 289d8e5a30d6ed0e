"""The terminal's rendering of a result: plain lines that fit 80 columns."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

WIDTH = 79
INDENT = "  "
LABEL = 11

_STYLES = {
    "pass": "green",
    "fail": "bold red",
    "warning": "yellow",
    "inconclusive": "yellow",
    "not-run": "yellow",
    "skip": "dim",
    "ignored": "dim",
}


def render(result: Mapping[str, Any], console: Console, *, verbose: bool = False) -> None:
    """Print a result; `verbose` lists what passed and what was skipped too."""
    for line in lines(result, width=console.width - 1, verbose=verbose):
        console.print(line, soft_wrap=True, highlight=False)


def terminal_width() -> int:
    """Width of the terminal, between 60 and 100 columns; 80 where there is none."""
    return max(60, min(shutil.get_terminal_size((80, 24)).columns, 100))


def lines(
    result: Mapping[str, Any], *, width: int = WIDTH, verbose: bool = False
) -> Iterator[Text]:
    """Yield the report line by line: subject, figures, findings, verdict."""
    yield from _subject(result, width)
    figures = list(_figures(result["measurements"], width))
    if figures:
        yield Text("")
        yield from figures
    yield from _findings(result, width, verbose=verbose)
    yield Text("")
    yield from _verdict(result, width)


def _subject(result: Mapping[str, Any], width: int) -> Iterator[Text]:
    for key in ("target", "drafter", "sglang"):
        value = result["subject"].get(key)
        if value:
            yield _row(key, str(value), width)


def _figures(measured: Mapping[str, Any], width: int) -> Iterator[Text]:
    wiring = measured.get("wiring")
    yield from _rows("wiring", _wiring(wiring) if wiring else (), width)
    acceptance = measured.get("acceptance")
    yield from _rows("accept", _acceptance(acceptance) if acceptance else (), width)
    throughput = measured.get("throughput")
    yield from _rows("speed", map(_speed, throughput["streams"]) if throughput else (), width)
    took = measured.get("stage_seconds")
    if took:
        yield _row("took", ", ".join(f"{k} {v:.0f} s" for k, v in took.items()), width)


def _wiring(wiring: Mapping[str, Any]) -> Iterator[str]:
    for load in wiring["loads"]:
        dropped = sum(not t["into"] and t["name"] != "t2d" for t in load["tensors"])
        random = set(load["unwritten"]) - set(load["shared"])
        yield (
            f"{load['model_class']}: {len(load['tensors'])} tensors offered, {dropped} dropped; "
            f"parameters left unset: {len(random)}"
        )
    for seen in wiring["forwards"]:
        fused = f"fc {seen['fc_in']} -> {seen['fc_out']}" if seen["fc_ran"] else "fc did not run"
        if seen["mode"] == "DECODE" and not seen["fc_ran"]:
            fused = "fc rests while drafting, by design"
        yield f"{seen['mode'].lower()}: received {seen['width']}, {fused}"


def _acceptance(acceptance: Mapping[str, Any]) -> Iterator[str]:
    steps = f"{acceptance['verify_steps']:,}".replace(",", " ")
    length, rate = acceptance["accept_length"], acceptance["accept_rate"]
    if length:
        counts = f"{acceptance['prompts']} prompts, {steps} verify steps"
        yield f"length {interval(length)}   {counts}"
    if rate:
        yield f"rate   {interval(rate)}   correct / proposed drafts"
    if acceptance["per_position"]:
        yield "position   " + positions(acceptance["per_position"])
    if acceptance["missing"]:
        yield acceptance["missing"]


def _speed(stream: Mapping[str, Any]) -> str:
    name = "1 stream" if stream["concurrency"] == 1 else f"{stream['concurrency']} streams"
    return (
        f"{stream['tokens_per_second']:.1f} tok/s   {name}, {stream['requests']} requests, "
        f"{stream['output_tokens']} tokens"
    )


def interval(value: Mapping[str, Any]) -> str:
    """Write an interval, as in ``2.23 [2.15, 2.31] 95 %``."""
    low = "-inf" if value["low"] is None else f"{value['low']:.2f}"
    high = "inf" if value["high"] is None else f"{value['high']:.2f}"
    return f"{value['value']:.2f}  [{low}, {high}] {value['level']:.0%}".replace("%", " %")


def positions(shares: Sequence[float]) -> str:
    """Write the share of correct drafts by position, as in ``1: 0.62   2: 0.35``."""
    return "   ".join(f"{i}: {share:.2f}" for i, share in enumerate(shares, start=1))


def _findings(result: Mapping[str, Any], width: int, *, verbose: bool) -> Iterator[Text]:
    shown = [
        f
        for f in result["findings"]
        if f["status"] in ("fail", "inconclusive") or verbose or _is_ignored(f)
    ]
    for finding in sorted(shown, key=_order):
        yield Text("")
        yield from _finding(finding, width)


def _is_ignored(finding: Mapping[str, Any]) -> bool:
    return "ignored" in finding["evidence"]


def _order(finding: Mapping[str, Any]) -> int:
    ranks = {"fail": 0, "inconclusive": 1, "pass": 3, "skip": 4}
    rank = ranks[finding["status"]]
    return 2 if rank == 0 and finding["severity"] != "error" else rank


def _finding(finding: Mapping[str, Any], width: int) -> Iterator[Text]:
    failed = finding["status"] == "fail"
    label = finding["severity"] if failed and finding["severity"] != "error" else finding["status"]
    label = "ignored" if _is_ignored(finding) else label
    head = f"{finding['code']} {finding['title']}"
    room = width - len(label) - 1
    lead, *rest = textwrap.wrap(head, room, subsequent_indent=INDENT) or [""]
    line = Text(lead.ljust(room) + " ", style="bold" if failed else "")
    line.append(label.upper(), style=_STYLES.get(label, ""))
    yield line
    yield from (Text(r) for r in rest)
    if finding["message"] != finding["title"]:
        yield from _wrapped(finding["message"], width)
    if finding["fix"]:
        yield _row("  fix", finding["fix"], width)


def _wrapped(text: str, width: int) -> Iterator[Text]:
    for paragraph in text.splitlines():
        wrapped = textwrap.wrap(paragraph, width, initial_indent=INDENT, subsequent_indent=INDENT)
        yield from (Text(line) for line in wrapped or [""])


def _verdict(result: Mapping[str, Any], width: int) -> Iterator[Text]:
    verdict = result["verdict"]
    line = _row("verdict", f"{verdict.upper()}   {_counts(result['findings'])}", width)
    line.stylize(_STYLES[verdict], LABEL, LABEL + len(verdict))
    yield line
    blocked = result["measurements"].get("blocked")
    if blocked:
        yield _row("unmeasured", blocked, width)
    causes = result["causes"]
    if verdict == "fail" and causes:
        yield _row("cause", f"{causes[0]['code']} {causes[0]['message']}", width)
    if result.get("reproduce") and verdict != "pass":
        yield Text("reproduce".ljust(LABEL) + result["reproduce"])  # whole, to be copied


def _counts(findings: Sequence[Mapping[str, Any]]) -> str:
    names = (("pass", "passed"), ("fail", "failed"), ("inconclusive", "inconclusive"))
    parts = []
    for status, word in (*names, ("skip", "skipped")):
        found = [f for f in findings if f["status"] == status and not _is_ignored(f)]
        mild = [f["severity"] for f in found if status == "fail" and f["severity"] != "error"]
        if len(found) > len(mild):
            parts.append(f"{len(found) - len(mild)} {word}")
        for severity, name in (("warning", "warning"), ("info", "note")):
            if count := mild.count(severity):
                parts.append(f"{count} {name}{'s' if count > 1 else ''}")
    if ignored := sum(map(_is_ignored, findings)):
        parts.append(f"{ignored} ignored")
    return ", ".join(parts)


def _rows(label: str, texts: Iterable[str], width: int) -> Iterator[Text]:
    """Yield a row a text, the label on the first alone."""
    for number, text in enumerate(texts):
        yield _row("" if number else label, text, width)


def _row(label: str, text: str, width: int) -> Text:
    wrapped = textwrap.wrap(
        text,
        max(width - LABEL, 20),
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return Text(label.ljust(LABEL) + ("\n" + " " * LABEL).join(wrapped or [""]))
