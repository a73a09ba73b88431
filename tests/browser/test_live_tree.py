"""The event tree on the live page in a real Chromium: it is drawn, follows the stream, fits, and the page's policy holds."""

from __future__ import annotations

import os
from urllib.parse import unquote

import pytest
from live_pages import SIZES, await_feed, await_that, monitored, opened

pytestmark = pytest.mark.browser
DRAWN = "() => { const i = document.querySelector('#tree img'); return i.complete && i.naturalWidth > 0 && i.clientHeight; }"


@pytest.mark.parametrize("size", list(SIZES))
def test_the_tree_is_drawn_and_follows_the_stream(browser, bundle_path, tmp_path, size):
    with monitored.serving(bundle_path, tmp_path / "state.sqlite") as service:
        page, troubles = opened(
            browser, service.address, size, color_scheme="dark" if size == "phone" else "light"
        )
        await_feed(page, "live")
        picture = page.locator("#tree img")

        def says(text: str) -> bool:
            return text in unquote(picture.get_attribute("src") or "")

        await_that(page, lambda: says("Cannot be told now; as calibrated, 5% shifted"))
        assert service.post(monitored.events(200, shifted=0.9)).status == 200
        await_that(page, lambda: says("Now, window of 100 events") and page.evaluate(DRAWN))
        assert picture.get_attribute("alt").startswith(
            "Now, window of 100 events. 4 outcomes; expected cost 0."
        )
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        height = page.evaluate(DRAWN)
        assert height > (200 if size == "phone" else 150), "laid out for its width"
        assert not troubles
        folder = os.environ.get("SCREENSHOTS")
        if folder:
            page.locator("#tree").screenshot(path=f"{folder}/tree-{size}.png")
