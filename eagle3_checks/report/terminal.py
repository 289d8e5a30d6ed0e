"""The terminal's rendering of a result: plain lines that fit 80 columns."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from eagle3_checks.report.rows import clause, grouped, interval, positions, rows
from eagle3_checks.report.text import counts, label_of, lead

WIDTH = 79
INDENT = "  "
LABEL = 11
NARROWEST = 40
SHOWN = 3
"""Causes without proof that are told with their evidence; the result has all."""
GLUE = "\u00a0"
"""Stands for a blank that must not break, as in ``19 876``, while lines are wrapped."""

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
    """Width of the terminal, between 40 and 100 columns; 80 where there is none."""
    return max(NARROWEST, min(shutil.get_terminal_size((80, 24)).columns, 100))


def lines(
    result: Mapping[str, Any], *, width: int = WIDTH, verbose: bool = False
) -> Iterator[Text]:
    """Yield the report line by line: subject, figures, findings, verdict."""
    yield from overview(result, width)
    yield from _findings(result, width, verbose=verbose)
    yield Text("")
    yield from _verdict(result, width)


def overview(result: Mapping[str, Any], width: int) -> Iterator[Text]:
    """Yield what was judged and what was measured, without findings and verdict."""
    yield from _subject(result, width)
    figures = list(_figures(result["measurements"], width))
    if figures:
        yield Text("")
        yield from figures


def _subject(result: Mapping[str, Any], width: int) -> Iterator[Text]:
    for key in ("target", "drafter", "sglang"):
        value = result["subject"].get(key)
        if value:
            # The result keeps the line breaks of messages; one in a path must not break its row.
            yield _row(key, str(value).replace("\n", "\\n").replace("\t", "\\t"), width)


def _figures(measured: Mapping[str, Any], width: int) -> Iterator[Text]:
    wiring = measured.get("wiring")
    yield from _rows("wiring", _wiring(wiring) if wiring else (), width)
    acceptance = measured.get("acceptance")
    yield from _rows("accept", _acceptance(acceptance) if acceptance else (), width)
    yield from _rows("replay", _replay(measured), width)
    parity = measured.get("parity")
    yield from _rows("answers", _parity(parity) if parity else (), width)
    throughput = measured.get("throughput")
    yield from _rows("baseline", _baseline(measured), width)
    yield from _rows("speed", map(_speed, throughput["streams"]) if throughput else (), width)
    yield from _rows("speed-up", _speed_ups(throughput) if throughput else (), width)
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
    steps = grouped(acceptance["verify_steps"])
    length, rate = acceptance["accept_length"], acceptance["accept_rate"]
    if length:
        counts = f"{acceptance['prompts']} prompts, {steps} verify steps"
        yield f"length {interval(length)}   {counts}"
    if rate:
        yield f"rate   {interval(rate)}   correct / proposed drafts"
    if acceptance["per_position"]:
        yield "position   " + positions(acceptance["per_position"])
    for key, name in (("by_set", "by set"), ("by_prompt_tokens", "by length")):
        groups = [g for g in acceptance.get(key) or () if g["accept_length"]]
        if len(groups) > 1:
            shown = (f"{g['name']}: {g['accept_length']['value']:.2f}" for g in groups)
            yield f"{name}   " + "   ".join(shown)
    if acceptance.get("stopped"):
        prompts = f"{grouped(acceptance['prompts'])} of {grouped(acceptance['planned'])} prompts"
        yield f"ended after {prompts}: {acceptance['stopped']}"
    if acceptance["missing"]:
        yield acceptance["missing"]


def _replay(measured: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the drafter reaches offline, to be read against what it reached when served."""
    replayed = measured.get("replayed")
    if not replayed:
        yield from filter(None, [measured.get("not_replayed")])
        return
    acceptance = replayed["acceptance"]
    steps = grouped(acceptance["verify_steps"])
    if acceptance["accept_length"]:
        counts = f"{acceptance['prompts']} prompts, {steps} verify steps"
        yield f"length {interval(acceptance['accept_length'])}   {counts}"
    if acceptance["per_position"]:
        yield "position   " + positions(acceptance["per_position"])
    source = {"server": "a server without a drafter"}.get(replayed["source"], replayed["source"])
    yield f"offline, on aux states from {source}"


def _parity(parity: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many tokens are the target's own; what differs stands among the findings."""
    scored = parity["scored"]
    own = scored["tokens"] - len(scored["divergences"])
    if scored["tokens"]:
        yield f"{grouped(own)} of {grouped(scored['tokens'])} tokens are the target's own choice"
    runs = {"again": "in a second run", "together": "in company", "cached": "from the cache"}
    same = [told for run, told in runs.items() if _alike(parity[run])]
    if same:
        yield f"the same {', '.join(same)}"


def _alike(run: Mapping[str, Any]) -> bool:
    return bool(run["tokens"]) and not run["divergences"]


def _baseline(measured: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was recorded, or what was compared with what."""
    seen = measured.get("baseline") or {}
    if seen.get("accept_length") is None:
        return
    states = {"written": "recorded by this run", "updated": "replaced by this run"}
    state = states.get(seen["state"], f"of {seen.get('recorded', '')[:10]}")
    yield f"{seen['accept_length']:.2f} {state}   {seen.get('path', '')}".rstrip()
    judged = (measured.get("judgements") or {}).get("baseline")
    if judged and seen["state"] not in states:
        change = judged["interval"]
        ends = ", ".join(
            "none" if e is None else f"{e:+.1%}" for e in (change["low"], change["high"])
        )
        told = (
            f"{judged['value']:+.1%} [{ends}] {change['level']:.0%}   {judged['prompts']} prompts"
        )
        yield told.replace("%", " %")


def _speed(stream: Mapping[str, Any]) -> str:
    failed = f", {stream['failed']} failed" if stream["failed"] else ""
    return (
        f"{stream['tokens_per_second']:.1f} tok/s   {_streams(stream['concurrency'])}, "
        f"{stream['requests']} requests{failed}, {stream['output_tokens']} tokens"
    )


def _speed_ups(throughput: Mapping[str, Any]) -> Iterator[str]:
    """Yield the speed-up at each concurrency, and where it ends."""
    ups = throughput.get("speed_ups") or ()
    for up in ups:
        speed = up.get("base_tokens_per_second")
        base = f", {speed:.1f} tok/s without" if speed else ""
        yield f"{interval(up['ratio'])}   {_streams(up['concurrency'])}{base}"
    end = throughput.get("break_even")
    if end is not None:
        yield f"speculation pays below about {end:.1f} streams"
        return
    paid = {up["ratio"]["value"] >= 1 for up in ups}
    if len(paid) == 1:
        yield f"speculation paid at {'every' if paid == {True} else 'no'} concurrency measured"


def _streams(concurrency: int) -> str:
    return "1 stream" if concurrency == 1 else f"{concurrency} streams"


def _findings(result: Mapping[str, Any], width: int, *, verbose: bool) -> Iterator[Text]:
    shown = [
        f
        for f in result["findings"]
        if verbose or label_of(f) in ("fail", "warning", "inconclusive", "ignored")
    ]
    for finding in sorted(shown, key=_order):
        yield Text("")
        yield from _finding(finding, result, width)


def _order(finding: Mapping[str, Any]) -> int:
    ranks = {"fail": 0, "inconclusive": 1, "pass": 3, "skip": 4}
    rank = ranks[finding["status"]]
    return 2 if rank == 0 and finding["severity"] != "error" else rank


def _finding(finding: Mapping[str, Any], result: Mapping[str, Any], width: int) -> Iterator[Text]:
    label = label_of(finding)
    head = f"{finding['code']} {finding['title']}"
    room = width - len(label) - 1
    lead, *rest = textwrap.wrap(head, room, subsequent_indent=INDENT) or [""]
    line = Text(lead.ljust(room) + " ", style="bold" if finding["status"] == "fail" else "")
    line.append(label.upper(), style=_STYLES.get(label, ""))
    yield line
    yield from (Text(r) for r in rest)
    for row in rows(finding, result):
        if row.label == "reproduce":
            yield Text(INDENT + row.label.ljust(LABEL) + row.text)  # whole, to be copied
        elif row.label:
            yield _row(INDENT + row.label, row.text, width, indent=len(INDENT) + LABEL)
        else:
            yield from _wrapped(row.text, width)


def _wrapped(text: str, width: int) -> Iterator[Text]:
    for paragraph in text.splitlines():
        yield Text("\n".join(INDENT + line for line in _lines(paragraph, width - len(INDENT))))


def _verdict(result: Mapping[str, Any], width: int) -> Iterator[Text]:
    verdict = result["verdict"]
    line = _row("verdict", f"{verdict.upper()}   {counts(result['findings'])}", width)
    line.stylize(_STYLES[verdict], LABEL, LABEL + len(verdict))
    yield line
    blocked = result["measurements"].get("blocked")
    if blocked:
        yield _row("unmeasured", blocked, width)
    if verdict == "fail" and result["causes"]:
        yield from _causes(result, width)
    if result.get("reproduce") and verdict != "pass":
        yield Text("reproduce".ljust(LABEL) + result["reproduce"])  # whole, to be copied


def _causes(result: Mapping[str, Any], width: int) -> Iterator[Text]:
    """Yield the cause that a rule found, or those it did not, with evidence and what to try."""
    causes: Sequence[Mapping[str, Any]] = result["causes"]
    proven = causes[0]["confidence"] == "proven"
    messages = {(f["code"], f["message"]) for f in result["findings"]}
    if proven and (causes[0]["code"], causes[0]["message"]) in messages:
        yield _row("cause", " ".join(lead(result)), width)
        return
    yield _row("cause", "by replay:" if proven else "not proven; the likeliest first:", width)
    for number, cause in enumerate(causes[: 1 if proven else SHOWN], start=1):
        told = f"{cause['name']} ({cause['confidence']}): {clause(cause['message'])}"
        yield _row("", f"{number}. {told}", width, indent=LABEL)
        rows = [("for", text) for text in cause["evidence_for"]]
        rows += [("against", text) for text in cause["evidence_against"]]
        for label, text in rows:
            yield _row(" " * LABEL + label, text, width, indent=2 * LABEL)
        for step in cause["try"]:
            yield _row(" " * LABEL + "try", step["what"], width, indent=2 * LABEL)
            if step["command"]:
                yield Text(" " * 2 * LABEL + step["command"])  # whole, to be copied


def _rows(label: str, texts: Iterable[str], width: int) -> Iterator[Text]:
    """Yield a row a text, the label on the first alone."""
    for number, text in enumerate(texts):
        yield _row("" if number else label, text, width)


def _row(label: str, text: str, width: int, *, indent: int = LABEL) -> Text:
    parts = _lines(text, max(width - indent, 20))
    return Text(label.ljust(indent) + ("\n" + " " * indent).join(parts))


def _lines(text: str, width: int) -> list[str]:
    """Break a text at blanks; a number stays with its groups and its noun, names stay whole."""
    glued = re.sub(r"(?<=\d) (?=[a-z%]|\d{3}\b)|(?<=\d:) (?=\d)", GLUE, text)
    wrapped = textwrap.wrap(
        glued,
        width,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return [line.replace(GLUE, " ") for line in wrapped] or [""]
