"""What the live page says while the service hangs, cannot write, counts nothing, or has begun another stream."""

from __future__ import annotations

import signal

import pytest
from live_pages import await_feed, await_verdict, monitored, opened

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
