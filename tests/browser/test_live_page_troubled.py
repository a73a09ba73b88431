"""What the live page says while the service hangs, cannot write, counts nothing, or has begun another stream."""

from __future__ import annotations

import signal

import pytest
from live_pages import await_feed, await_text, await_that, await_verdict, monitored, opened

pytestmark = pytest.mark.browser


def test_a_service_that_hangs_is_not_called_tolerable(browser, bundle_path, tmp_path):
    with monitored.serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(monitored.events(300))
        page, _ = opened(browser, service.address, "desk")
        await_verdict(page, "Tolerable")
        await_feed(page, "live")
        service.process.send_signal(signal.SIGSTOP)
        await_verdict(page, "No answer")
        assert page.locator("#feed").get_attribute("data-state") == "lost" and page.title().startswith("(?) No answer")
        service.process.send_signal(signal.SIGCONT)
        await_verdict(page, "Tolerable")
        await_feed(page, "live")
        page.context.close()


def test_a_new_state_of_the_same_bundle_is_another_stream(browser, bundle_path, tmp_path):
    with monitored.serving(bundle_path, tmp_path / "before.sqlite") as service:
        service.post(monitored.events(600))
        page, _ = opened(browser, service.address, "desk")
        await_text(page, "#events", "600")
        port = str(service.port)
        assert service.stop() == 0
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with monitored.serving(bundle_path, tmp_path / "after.sqlite", "--port", port) as service:
        service.post(monitored.events(150, start=monitored.START + 86_400.0))
        await_text(page, "#events", "150")
        await_that(page, lambda: asked[-1].endswith("/v1/live?after_event=150"))
        page.locator("#figure-risk .u-over").hover(position={"x": 5, "y": 40})
        shown = page.locator("#figure-risk .now")
        await_that(page, lambda: ": " in shown.inner_text())
        assert shown.inner_text().startswith("15 Nov 2023"), "of the new stream, which began a day later"
        page.context.close()
