from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_checks.report.schema_docs import COMMAND, PAGE, main, page


def test_the_page_is_current() -> None:
    assert main(["--check"]) == 0, f"run `{COMMAND}`"


def test_a_page_that_is_not_current_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "result.md"
    assert main([str(file), "--check"]) == 1
    assert main([str(file)]) == 0
    assert main([str(file), "--check"]) == 0
    assert file.read_text() == PAGE.read_text()
    file.write_text(page() + "more")
    assert main([str(file), "--check"]) == 1
    assert f"run {COMMAND}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "row",
    [
        "| **`schema_version`** | `1` |  |",
        "| **`verdict`** | `pass`, `fail`, `inconclusive`, `not-run` |  |",
        "| `hashes.drafter` | string or null | over all bytes",
        "| **`[].code`** | string |  |",
        "| **`*.origin`** | string |  |",
        "| `accept_length` | [interval](#interval) | pooled: ",
        "| `per_position` | null or list of number |  |",
        "| **`streams`** | list of [stream](#stream) |  |",
        "| `latencies` | list of (string, integer, number) | ",
    ],
)
def test_each_kind_of_key_is_told(row: str) -> None:
    assert f"\n{row}" in page()
