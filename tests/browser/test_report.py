"""The report in a real Chromium with the network off: nothing fails, everything is there, and it can be read on a phone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import sample_run

from roadworthy.report.html import html, printed
from roadworthy.store.record import Record

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

SIZES = {"desk": (1280, 900), "phone": (390, 844)}
A4_INSIDE = 703
"""Pixels between the margins of a page: 186 mm at 96 a inch."""
SECTIONS = [
    *("verdict", "claims", "circumstances", "slices", "levels", "gallery"),
    *("worst", "supervisors", "use", "hashes", "method", "reproduce"),
]
FIGURES = ["claims", "priority", "circumstances", "slices", "levels", "supervisors"]

OVERLAPS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll("figure svg.rw-chart")) {
    const texts = [...svg.querySelectorAll("text")].map((t) => [t.firstChild.textContent, t.getBoundingClientRect()])
      .filter(([, b]) => b.width > 0);
    texts.forEach(([one, a], i) => texts.slice(i + 1).forEach(([other, b]) => {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1 && down > 1) found.push(`${svg.classList[1]}: ${one} / ${other}`);
    }));
  }
  return found;
}"""

SMALLEST = """() => Math.min(...[...document.querySelectorAll("figure svg.rw-chart text")]
  .filter((t) => t.getBoundingClientRect().width > 0)
  .map((t) => [t, t.getScreenCTM()])
  .map(([t, m]) => parseFloat(t.getAttribute("font-size")) * Math.hypot(m.a, m.b)))"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("reports")
    written = {}
    for variant in ("plain", "many", "hostile", "mota", "bare", "text", "supervised", "risky"):
        written[variant] = root / f"{variant}.html"
        view = Record.read(sample_run.build(root / variant, variant))
        written[variant].write_text(html(view), encoding="utf-8")
    return written


def opened(browser: Browser, report: Path, size: str, **options: Any) -> tuple[Page, list[str]]:
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, offline=True, **options
    )
    page = context.new_page()
    troubles: list[str] = []
    page.on(
        "console", lambda m: troubles.append(m.text) if m.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda e: troubles.append(str(e)))
    page.on("requestfailed", lambda r: troubles.append(f"failed: {r.url[:80]}"))
    page.on(
        "request",
        lambda r: None if r.url.startswith(("file:", "data:")) else troubles.append(r.url),
    )
    page.goto(report.as_uri())
    return page, troubles


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "variant", ["plain", "many", "hostile", "mota", "bare", "text", "supervised", "risky"]
)
def test_a_report_opens_offline_without_error_and_without_overflow(
    browser: Browser, reports: dict[str, Path], variant: str, size: str
) -> None:
    page, troubles = opened(browser, reports[variant], size)
    try:
        missing = [s for s in SECTIONS if not _has_size(page, f"#{s}")]
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert troubles == []
        assert missing == []
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.evaluate(OVERLAPS) == []
    finally:
        page.context.close()


@pytest.mark.parametrize("size", SIZES)
def test_every_figure_and_claim_can_be_seen_and_read(
    browser: Browser, reports: dict[str, Path], size: str
) -> None:
    page, _ = opened(browser, reports["plain"], size)
    try:
        for name in FIGURES:
            charts = page.locator(f"#figure-{name} svg.rw-chart").all()
            seen = [c.bounding_box() for c in charts if c.is_visible()]
            assert len(seen) == 1, name
            assert seen[0] and seen[0]["width"] > 250 and seen[0]["height"] > 80, name
        for id in ("REL-01", "HAZ-07", "HAZ-09", "HAZ-10", "OPS-02", "REL-03"):
            assert page.locator("#claims table.stack b", has_text=id).first.is_visible()
        assert page.locator("h1").inner_text().endswith("Breached")
        assert page.evaluate(SMALLEST) >= 10.9
        assert page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") >= 14
        pictures = page.evaluate("[...document.images].map((i) => i.naturalWidth)")
        assert pictures and min(pictures) == 28
        page.evaluate(
            "document.querySelectorAll('#figure-levels svg')"
            ".forEach((s) => s.append(s.querySelector('text').cloneNode(true)))"
        )
        assert page.evaluate(OVERLAPS) != []  # the check above can fail
    finally:
        page.context.close()


@pytest.mark.parametrize("size", SIZES)
def test_the_recommended_set_and_what_each_supervisor_misses_can_be_read(
    browser: Browser, reports: dict[str, Path], size: str
) -> None:
    page, troubles = opened(browser, reports["supervised"], size)
    try:
        box = page.locator("#recommended")
        assert box.is_visible() and "max_softmax, knn(k=5) and autoencoder" in box.inner_text()
        within = "(e) => { const b = e.getBoundingClientRect(); return b.left >= 0 && b.right <= window.innerWidth; }"
        for name in ("missed", "supervisors"):
            seen = [c for c in page.locator(f"#figure-{name} svg.rw-chart").all() if c.is_visible()]
            assert len(seen) == 1
            assert seen[0].locator("text").evaluate_all(f"(all) => all.every({within})")
            assert page.evaluate(SMALLEST) >= 10.9
        cells = page.locator("#figure-missed svg.rw-chart:visible rect[rx]")
        assert cells.count() == 19 * 26
        assert (
            min(cells.evaluate_all("(all) => all.map((e) => e.getBoundingClientRect().width)"))
            >= 24
        )
        starred = page.locator("#figure-missed svg.rw-chart:visible text", has_text="★")
        assert {t.strip("★ ") for t in starred.all_text_contents()} >= {
            "max_softmax",
            "knn(k=5)",
            "autoencoder",
        }
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert troubles == []
    finally:
        page.context.close()


def test_a_table_that_goes_on_to_the_right_says_so_until_its_end(
    browser: Browser, reports: dict[str, Path]
) -> None:
    from playwright.sync_api import expect

    page, _ = opened(browser, reports["plain"], "phone")
    try:
        table = page.locator("#circumstances .scroll")
        hint = "(b) => getComputedStyle(b, '::before').content"
        # Not wait_for_function, which polls by eval: the report's policy forbids it whenever the first look is too early.
        more = page.locator("#circumstances .scroll[data-more]")
        expect(more).to_have_count(1)
        assert "scroll" in table.evaluate(hint)
        table.evaluate("(b) => { b.scrollLeft = b.scrollWidth; }")
        expect(more).to_have_count(0)
        assert "scroll" not in table.evaluate(hint)
    finally:
        page.context.close()


def test_the_page_is_complete_without_script(browser: Browser, reports: dict[str, Path]) -> None:
    page, troubles = opened(browser, reports["plain"], "desk", java_script_enabled=False)
    try:
        assert page.locator("#gallery .pairs > li").count() == 15
        assert not page.locator("#gallery-filter").is_visible()
        assert troubles == []
    finally:
        page.context.close()


def test_the_gallery_is_filtered_and_stepped_through_by_keyboard(
    browser: Browser, reports: dict[str, Path]
) -> None:
    page, _ = opened(browser, reports["hostile"], "desk")
    try:
        page.select_option("#gallery-filter", label=sample_run.HOSTILE)
        seen = page.locator("#gallery .pairs > li:visible")
        assert seen.count() == 3
        seen.first.focus()
        page.keyboard.press("ArrowRight")
        assert page.evaluate(
            "document.activeElement === document.querySelectorAll('#gallery .pairs > li')[1]"
        )
    finally:
        page.context.close()


@pytest.mark.parametrize("variant", ["plain", "supervised", "risky"])
def test_in_print_everything_is_open_and_nothing_is_cut_off(
    browser: Browser, reports: dict[str, Path], variant: str
) -> None:
    from playwright.sync_api import expect

    page, _ = opened(browser, reports[variant], "desk")
    try:
        page.set_viewport_size({"width": A4_INSIDE, "height": 1000})
        page.emulate_media(media="print")
        folded = page.locator("details > :not(summary)").all()
        assert folded
        for part in folded:
            expect(part).to_be_visible()
        wide = page.evaluate(
            "[...document.querySelectorAll('table, figure, pre, .facts')]"
            ".filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.textContent.slice(0, 60))"
        )
        assert wide == []
    finally:
        page.context.close()


def test_a_report_is_printed_to_pdf(browser: Browser, reports: dict[str, Path]) -> None:
    content = printed(reports["plain"])
    assert content.startswith(b"%PDF-") and len(content) > 50_000


def test_dark_readers_get_dark_charts(browser: Browser, reports: dict[str, Path]) -> None:
    fills = []
    for scheme in ("light", "dark"):
        page, _ = opened(browser, reports["plain"], "desk", color_scheme=scheme)
        fills.append(
            page.evaluate("getComputedStyle(document.querySelector('.rw-chart text')).fill")
        )
        page.context.close()
    assert fills[0] != fills[1]


def _has_size(page: Page, selector: str) -> bool:
    box = page.locator(selector).bounding_box()
    return box is not None and box["width"] > 100 and box["height"] > 20
