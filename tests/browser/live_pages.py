"""A live page that is open, and what is asked of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1] / "web"))
import monitored

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SIZES = {"desk": (1280, 900), "phone": (390, 844)}
INK = """(selector) => {
  const canvas = document.querySelector(selector + " canvas"), { width, height } = canvas;
  const data = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) seen.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
  return [...seen];
}"""
COLUMNS_WITH = """([selector, colour]) => {
  const canvas = document.querySelector(selector + " canvas"), { width, height } = canvas, wanted = colour.split(",").map(Number);
  const data = canvas.getContext("2d").getImageData(0, 0, width, height).data, seen = new Set();
  for (let i = 0; i < data.length * 0.75; i += 4) // below are words; a line between two rows of pixels is a little paler
    if (data[i + 3] > 150 && wanted.every((c, k) => Math.abs(data[i + k] - c) < 60)) seen.add((i / 4) % width / width);
  return [...seen];
}"""
COLOUR = """(name) => {
  const probe = document.createElement("i");
  probe.style.color = `var(--rw-${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color.match(/\\d+/g).slice(0, 3).join(",");
  probe.remove();
  return found;
}"""


def opened(browser: Browser, address: str, size: str, **options: Any) -> tuple[Page, list[str]]:
    width, height = SIZES[size]
    page = browser.new_context(viewport={"width": width, "height": height}, **options).new_page()
    troubles: list[str] = []
    ours = "willReadFrequently"  # a remark on the test, which reads the canvas again and again
    page.on(
        "console",
        lambda m: (
            troubles.append(m.text)
            if m.type in ("error", "warning") and ours not in m.text
            else None
        ),
    )
    page.on("pageerror", lambda e: troubles.append(str(e)))
    page.on(
        "request",
        lambda r: None if r.url.startswith((address, "data:")) else troubles.append(r.url),
    )
    page.goto(address)
    return page, troubles


def verdict(page: Page) -> str:
    return page.locator("#verdict").inner_text()


def await_that(page: Page, condition: Callable[[], bool]) -> None:
    """Ask from outside until it holds: the page's policy forbids eval, by which `wait_for_function` asks inside of it."""
    monitored.until(lambda: page.wait_for_timeout(100) or condition())


def await_text(page: Page, selector: str, text: str | re.Pattern[str]) -> None:
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_have_text(text, timeout=20_000)


def await_feed(page: Page, state: str) -> None:
    from playwright.sync_api import expect

    expect(page.locator("#feed")).to_have_attribute("data-state", state, timeout=20_000)


def await_verdict(page: Page, text: str) -> None:
    await_text(page, "#verdict", text)


def await_near(page: Page, selector: str, value: float, by: float) -> None:
    def near() -> bool:
        found = re.match(r"[-+]?[\d.]+", page.locator(selector).inner_text().strip())
        return found is not None and abs(float(found[0]) - value) <= by

    await_that(page, near)


def await_ink(page: Page, figure: str, colour: str) -> None:
    """Wait until a chart has something in a colour of the palette, or a shade beside it: lines have soft edges."""
    wanted = [int(part) for part in page.evaluate(COLOUR, colour).split(",")]

    def there() -> bool:
        found = ([int(part) for part in ink.split(",")] for ink in page.evaluate(INK, figure))
        return any(max(abs(a - b) for a, b in zip(ink, wanted, strict=True)) <= 2 for ink in found)

    await_that(page, there)
