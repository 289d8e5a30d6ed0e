"""``python -m eagle3_checks.report.schema_docs``: write docs/result.md from the result's schema."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "result.md"
SCHEMA = Path(__file__).with_name("result.schema.json")
COMMAND = "python -m eagle3_checks.report.schema_docs"
ABOUT = """\
`eagle3-checks inspect --format json` prints it; `gate --json OUT` and `--eagle3-json FILE`
write it. The schema, [result.schema.json](../eagle3_checks/report/result.schema.json)
(JSON Schema 2020-12), travels in the wheel. `schema_version` grows where a program that reads
results would have to change; keys may be added without that.

Keys in **bold** are always there. `[]` stands for each entry of a list, `*` for each key."""
IN_PARTS = ("measurements",)
"""Objects whose keys get a section each."""

Schema = Mapping[str, Any]


def page() -> str:
    """Return the text of the page."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    parts = ["# The result as JSON", ABOUT, "## The whole", _table(_direct(schema))]
    for name, inner in schema["properties"].items():
        parts += _sections(name, inner)
    parts.append("## Parts that occur in several places")
    for name, inner in schema["$defs"].items():
        text = inner.get("description", "")
        parts += [f"### {name}", *([_sentence(text)] if text else []), _table(_flat(inner))]
    return "\n\n".join(parts) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or say that it is not current."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Write docs/result.md.")
    parser.add_argument("page", nargs="?", type=Path, default=PAGE)
    parser.add_argument("--check", action="store_true", help="exit 1 where it is not current")
    arguments = parser.parse_args(argv)
    if not arguments.check:
        arguments.page.write_text(page(), encoding="utf-8")
    elif not arguments.page.is_file() or arguments.page.read_text(encoding="utf-8") != page():
        sys.stderr.write(f"{arguments.page} is not current; run {COMMAND}\n")
        return 1
    return 0


def _sections(name: str, schema: Schema) -> Iterator[str]:
    """Yield the section of an object, or of a list of them; nothing for a plain value."""
    rows = list(_flat(schema))
    if not rows:
        return
    yield f"## {name}"
    if "description" in schema:
        yield _sentence(schema["description"])
    if name not in IN_PARTS:
        yield _table(rows)
        return
    yield _table(_direct(schema))
    for key, inner in schema["properties"].items():
        if below := list(_flat(inner)):
            yield f"### {name}.{key}"
            yield _table(below)


def _table(rows: Iterator[tuple[str, str, str]] | Sequence[tuple[str, str, str]]) -> str:
    lines = (f"| {key} | {kind} | {about} |" for key, kind, about in rows)
    return "\n".join(("| key | type | |", "|---|---|---|", *lines))


def _direct(schema: Schema) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each key of an object: key, type, description."""
    for name, inner in schema.get("properties", {}).items():
        required = name in schema.get("required", ())
        yield _row(name, inner, required=required)


def _flat(schema: Schema, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield a row for each key at any depth; what is referred to stays one row."""
    if schema.get("type") == "array" or "array" in schema.get("type", ()):
        yield from _flat(schema.get("items", {}), f"{path}[]." if not path else f"{path[:-1]}[].")
        return
    anything = schema.get("additionalProperties")
    children = dict(schema.get("properties", {}))
    if isinstance(anything, Mapping) and "properties" in anything:
        children["*"] = anything
    for name, inner in children.items():
        required = name in schema.get("required", ())
        yield _row(f"{path}{name}", inner, required=required)
        yield from _flat(inner, f"{path}{name}.")


def _row(key: str, schema: Schema, *, required: bool) -> tuple[str, str, str]:
    name = f"**`{key}`**" if required else f"`{key}`"
    return name, _kind(schema), schema.get("description", "")


def _kind(schema: Schema) -> str:
    """Name a type, as in ``list of [interval](#interval)`` or ``number or null``."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kinds = schema.get("type", "any")
    words = [kinds] if isinstance(kinds, str) else list(kinds)
    inner = schema.get("items")
    if "prefixItems" in schema:
        words[words.index("array")] = f"({', '.join(_kind(i) for i in schema['prefixItems'])})"
    elif "array" in words:
        words[words.index("array")] = f"list of {_kind(inner)}" if inner else "list"
    return " or ".join(sorted(words, key=lambda word: word != "null") if inner else words)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


if __name__ == "__main__":
    sys.exit(main())
