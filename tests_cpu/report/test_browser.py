"""The page as a real browser shows it, at a phone's and a desk's width, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eagle3_checks.report.html import write_html
from tests_cpu.report import samples
from tests_cpu.report.browser import Browser, find_browser

PROGRAM = find_browser()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium (apt-get install chromium)"),
]
BOXES = """
[...document.querySelectorAll('figure svg:not(.swatch), .top > svg')].map(s => {
  const b = s.getBoundingClientRect();
  return [b.width, b.height, b.left, b.right, s.querySelectorAll('.seen-dot, .seen').length];
})"""
LETTERS = """
Math.min(...[...document.querySelectorAll('figure svg text')].map(
  t => t.getBoundingClientRect().height))"""
PAPER = {"light": "rgb(252, 252, 250)", "dark": "rgb(20, 23, 26)"}
OUTSIDE = """
[...document.querySelectorAll('figure')].flatMap(f => {
  const box = f.getBoundingClientRect();
  return [...f.querySelectorAll('svg text')].filter(t => {
    const b = t.getBoundingClientRect();
    return b.left < box.left || b.right > box.right || b.top < box.top || b.bottom > box.bottom;
  }).map(t => t.textContent);
})"""
OVERLAPS = """
[...document.querySelectorAll('svg')].flatMap(s => {
  const all = [...s.querySelectorAll('text')].map(
    t => [t.firstChild.data, t.getBoundingClientRect()]);
  return all.flatMap(([a, p], i) => all.slice(i + 1).filter(([, q]) =>
    p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 3 && q.top < p.bottom - 3
  ).map(([b]) => a + ' / ' + b));
})"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert PROGRAM is not None
    with Browser(PROGRAM, tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for name in ("dead", "healthy", "hostile", "not_run"):
        write_html(getattr(samples, name)(), folder / f"{name}.html")
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1200])
@pytest.mark.parametrize("name", ["healthy", "dead"])
def test_plots_are_seen(browser: Browser, pages: Path, name: str, width: int, scheme: str) -> None:
    browser.show(pages / f"{name}.html", width=width, dark=scheme == "dark")
    boxes = browser.value(BOXES)
    assert len(boxes) == {"healthy": 8, "dead": 3}[name]
    for wide, high, left, right, marks in boxes:
        assert wide > 200
        assert high > 50
        assert 0 <= left < right <= width
        assert marks
    assert browser.value(OUTSIDE) == []
    assert browser.value(OVERLAPS) == []
    assert browser.value(LETTERS) >= 10
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []
    paper = browser.value("getComputedStyle(document.body).backgroundColor")
    assert paper == PAPER[scheme]


@pytest.mark.parametrize("name", ["dead", "healthy", "hostile", "not_run"])
def test_nothing_is_asked_of_the_network(browser: Browser, pages: Path, name: str) -> None:
    page = pages / f"{name}.html"
    browser.show(page, width=390, dark=False)
    assert set(browser.requested()) <= {page.as_uri(), "data:,"}
    assert browser.complaints() == []
    assert browser.value("document.scripts.length") == 0
    assert browser.value("document.documentElement.scrollWidth") <= 390


def test_findings_expand_and_fold(browser: Browser, pages: Path) -> None:
    browser.show(pages / "dead.html", width=390, dark=False)
    body = "document.querySelector('#SPD002-1 .body').checkVisibility()"
    assert browser.value(body) is False
    browser.click("#SPD002-1 > summary")
    assert browser.value(body) is True
    browser.click("#SPD002-1 > summary")
    assert browser.value(body) is False
    assert browser.value("document.querySelector('#WIR003-0').open") is True
    browser.click(".many > summary")
    assert browser.value("document.querySelector('#KEY001-3').checkVisibility()") is True


def test_paper_shows_failures_and_the_profile(browser: Browser, pages: Path) -> None:
    browser.show(pages / "dead.html", width=1000, dark=False)
    hidden = "document.querySelector('.table table').checkVisibility()"
    assert browser.value(hidden) is False
    browser.call("Emulation.setEmulatedMedia", media="print")
    for selector in ("#SPD002-1 .body", "#CFG009-2 .body", ".table table"):
        seen = f"document.querySelector('{selector}').checkVisibility()"
        assert browser.value(seen) is True
    browser.call("Emulation.setEmulatedMedia", media="")
