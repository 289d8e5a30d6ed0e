"""``python -m eagle3_checks.report.rule_docs``: write docs/rules from the rules' declarations."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from eagle3_checks.report.explain import Section, sections
from eagle3_checks.rules.base import Rule
from eagle3_checks.rules.registry import all_rules

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "rules"
INDEX = "README.md"
COMMAND = "python -m eagle3_checks.report.rule_docs"
ABOUT = (
    "`eagle3-checks explain CODE` prints the same pages. An error is a fault on which the served "
    "drafter misbehaves; a warning is one that depends on how it was trained."
)
FAMILIES = {
    "SRC": "whether the files can be read",
    "CFG": "what config.json states",
    "KEY": "tensor names and shapes against SGLang's loader",
    "FUS": "the fusion layer and the captured layers",
    "VOC": "the draft vocabulary, d2t and the head",
    "VAL": "the values of tensors (`--values`)",
    "SRV": "the server",
    "WIR": "the wiring, seen from inside the server",
    "ACC": "acceptance, measured",
    "SPD": "speed, measured",
    "LOS": "losslessness, measured",
}


def pages() -> dict[str, str]:
    """Return the text of every page by file name."""
    made = {f"{rule.code()}.md": _page(rule) for rule in all_rules()}
    return {INDEX: _index(), **made}


def stale(folder: Path = FOLDER) -> tuple[str, ...]:
    """Return the pages in a folder that differ, are missing, or belong to no rule."""
    wanted = pages()
    names = {path.name for path in folder.glob("*.md")} | set(wanted)
    return tuple(sorted(n for n in names if _read(folder / n) != wanted.get(n)))


def write(folder: Path = FOLDER) -> None:
    """Write all pages, and remove those of rules that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for path in folder.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages, or say which are not current."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Write docs/rules from the rules.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--check", action="store_true", help="exit 1 where a page is not current")
    arguments = parser.parse_args(argv)
    if not arguments.check:
        write(arguments.folder)
        return 0
    old = stale(arguments.folder)
    for name in old:
        sys.stderr.write(f"{arguments.folder / name} is not current; run {COMMAND}\n")
    return 1 if old else 0


def _page(rule: type[Rule]) -> str:
    parts = [f"# {rule.code()}: {rule.title}", f"Severity: {rule.severity.value}"]
    for section in sections(rule):
        parts += [f"## {section.heading}", *section.paragraphs, *_lines(section)]
    return "\n\n".join(parts) + "\n"


def _lines(section: Section) -> Iterator[str]:
    if section.heading == "References":
        yield "\n".join(f"- {_reference(line)}" for line in section.lines)
    elif section.lines:
        yield "\n".join(("```text", *section.lines, "```"))


def _reference(text: str) -> str:
    return f"<{text}>" if text.startswith("https://") else f"[{text}](../../{text})"


def _index() -> str:
    parts = [
        "# Rules",
        ABOUT,
    ]
    for family, rules in groupby(all_rules(), lambda rule: rule.family()):
        rows = ["| code | severity | what holds |", "|---|---|---|"]
        rows += [f"| [{r.code()}]({r.code()}.md) | {r.severity.value} | {r.title} |" for r in rules]
        parts += [f"## {family}: {FAMILIES.get(family, '')}".rstrip(": "), "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
