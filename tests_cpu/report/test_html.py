from __future__ import annotations

import builtins
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from eagle3_checks.inspection import inspect
from eagle3_checks.report.html import MissingExtraError, page, write_html
from eagle3_checks.report.html.canvas import above, decades, ticks
from eagle3_checks.report.html.figures import at_floor, positions, speeds
from eagle3_checks.report.html.speed import crossing
from eagle3_checks.rules.registry import by_code
from eagle3_checks.shipped import shipped
from tests_cpu.report import samples

VOID = {"meta", "link", "line", "rect"}
TINY = shipped("fixtures", "tiny")


class Outline(HTMLParser):
    """Elements of a page with their attributes; fails where tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"] and data.strip():
            self.texts.append(" ".join(data.split()))

    def figures(self) -> list[str | None]:
        return [attrs.get("id") for tag, attrs in self.found if tag == "figure"]


ALL = ("dead", "healthy", "hostile", "not_run")


@pytest.mark.parametrize("name", ALL)
def test_the_page_stands_alone(name: str) -> None:
    text = page(getattr(samples, name)())
    found = Outline(text).found
    assert not {"script", "img", "iframe", "object", "embed"} & {tag for tag, _ in found}
    assert not [a for _, a in found if "src" in a or any(key.startswith("on") for key in a)]
    links = [a["href"] for tag, a in found if tag == "link"]
    assert links == ["data:,"]
    assert "default-src 'none'" in text
    assert not re.search(r"url\(|@import|xlink", text)
    assert len(text.encode()) < 100_000


@pytest.mark.parametrize("name", ALL)
def test_the_page_in_words(
    snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(
        "eagle3_checks.report.html.document._declaration", lambda _: {"why": "", "references": ()}
    )
    assert "\n".join(Outline(page(getattr(samples, name)())).texts) == snapshot


def test_a_finding_says_why_it_matters() -> None:
    texts = Outline(page(samples.dead())).texts
    assert by_code("WIR003").why in texts
    assert by_code("WIR003").references[0] in texts


def test_an_unknown_rule_is_shown_without_its_declaration() -> None:
    result = samples.dead()
    result["findings"][0]["code"] = "OLD001"
    assert "OLD001" in Outline(page(result)).texts


def test_figures_are_drawn_where_they_were_measured() -> None:
    everything = ["positions", "speed", "by-prompt-set", "by-prompt-length", "speedup", "trend"]
    everything.append("trend-by-position")
    assert Outline(page(samples.healthy())).figures() == everything
    assert Outline(page(samples.dead())).figures() == ["positions", "speed"]
    assert Outline(page(samples.not_run())).figures() == []


def test_failures_are_open_and_the_rest_is_not() -> None:
    found = Outline(page(samples.dead())).found
    details = [a for tag, a in found if tag == "details" and "finding" in (a["class"] or "")]
    assert [a["id"] for a in details if "open" in a] == ["WIR003-0", "ACC001-0", "SPD001-0"]
    assert len(details) == 8


def test_hostile_names_stay_text() -> None:
    text = page(samples.hostile())
    assert "<script>alert" not in text
    assert "{{ 7 * 7 }}" in text
    assert "\x1b" not in text


def test_what_inspect_gives_makes_a_page_too() -> None:
    text = page(inspect(str(TINY / "drafter"), str(TINY / "target")))
    assert "Every rule held. The files alone were judged." in Outline(text).texts


def test_a_page_is_the_same_each_time() -> None:
    assert page(samples.healthy()) == page(samples.healthy())


def test_writing(tmp_path: Path) -> None:
    write_html(samples.dead(), tmp_path / "deep" / "report.html")
    assert (tmp_path / "deep" / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *words: Any, **named: Any) -> Any:
        if name == "jinja2":
            raise ImportError(name)
        return real(name, *words, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'eagle3-checks\[report\]'"):
        page(samples.dead())


def test_intervals_that_have_no_end_are_left_out() -> None:
    result = samples.dead()
    length = result["measurements"]["acceptance"]["accept_length"]
    length["low"] = length["high"] = None
    assert "no interval" in Outline(page(result)).texts


def test_one_group_is_not_drawn_beside_the_whole() -> None:
    result = samples.healthy()
    del result["measurements"]["acceptance"]["by_set"][1:]
    assert "by-prompt-set" not in Outline(page(result)).figures()


def test_a_tree_has_no_positions() -> None:
    result = samples.healthy()
    result["measurements"]["acceptance"]["per_position"] = None
    assert "Acceptance by length of the path" in Outline(page(result)).texts


@pytest.mark.parametrize(("floor", "count"), [(2.25, 3), (1.0, 3), (4.0, 3), (1.5, 7)])
def test_a_drafter_at_the_floor_reaches_it(floor: float, count: int) -> None:
    assert 1 + sum(at_floor(floor, count)) == pytest.approx(floor)


def test_no_floor_is_drawn_where_it_cannot_be_reached() -> None:
    assert at_floor(5.0, 3) == ()
    assert at_floor(None, 3) == ()


def test_conditional_shares_are_worked_out_where_they_were_not_measured() -> None:
    found = positions(samples.dead())
    assert [p.conditional for p in found] == pytest.approx([0.02, 0.375, 1 / 3])


def test_break_even_lies_where_the_speed_up_falls_through_one() -> None:
    result = samples.healthy()
    found = crossing(speeds(result))
    assert found == pytest.approx(16 * 4 ** (0.33 / 0.43))
    assert crossing(speeds(result)[:2]) is None


def test_axes() -> None:
    assert ticks(0.0, 1.0, 4) == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert ticks(2.0, 2.0) == (2.0,)
    assert decades(18.0, 250.0) == (20.0, 50.0, 100.0, 200.0)
    assert decades(0.5, 1e6) == (1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
    assert [above(v) for v in (0.0, 0.9, 3.7, 1610.0)] == [1.0, 1.0, 4.0, 2000.0]
