"""What the live page says while the service hangs, cannot write, counts nothing, or has begun another stream."""

from __future__ import annotations

import re
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from live_pages import await_feed, await_text, await_that, await_verdict, monitored, opened, verdict

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

UNWRITTEN = "the state cannot be written"


@contextmanager
def no_space(service: monitored.Service) -> Iterator[str]:
    """The disk of a service is full; what a post of many events is answered."""
    pid = service.process.pid
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, hard))
    reply = service.post(monitored.events(100, first=5000, shifted=0.9))
    assert reply.status in (503, 507), reply.body
    yield reply.json["error"]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


def reason(page: Page) -> str:
    return page.locator("#reason").inner_text()


def opacity(page: Page) -> float:
    return float(page.locator(".facts").evaluate("e => getComputedStyle(e).opacity"))


@pytest.mark.slow
def test_a_service_that_hangs_is_not_called_tolerable(browser, bundle_path, tmp_path):
    with monitored.serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(monitored.events(300))
        page, _ = opened(browser, service.address, "desk")
        await_verdict(page, "Tolerable")
        await_feed(page, "live")
        service.process.send_signal(signal.SIGSTOP)
        await_verdict(page, "No answer")
        assert page.locator("#feed").get_attribute(
            "data-state"
        ) == "lost" and page.title().startswith("(?) No answer")
        service.process.send_signal(signal.SIGCONT)
        await_verdict(page, "Tolerable")
        await_feed(page, "live")
        page.context.close()


@pytest.mark.slow
@pytest.mark.parametrize("size", ["desk", "phone"])
def test_while_nothing_can_be_written_nothing_is_called_tolerable(
    browser, bundle_path, tmp_path, size
):
    with monitored.serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(monitored.events(300, start=time.time() - 900.0))
        page, _ = opened(browser, service.address, size)
        await_verdict(page, "Tolerable")
        risk = page.locator("#risk").inner_text()
        with no_space(service) as error:
            await_verdict(page, f"No estimate: {UNWRITTEN}")
            assert page.title().startswith(f"No estimate: {UNWRITTEN}")
            assert error in reason(page) and reason(page).endswith("from before: Tolerable.")
            assert page.locator("#risk").inner_text() == risk and opacity(page) < 1, (
                "figures of before"
            )
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            # Who counts may wait for the disk so long that no figures come: the service itself still answers.
            page.route("**/v1/live*", lambda route: route.abort())
            await_verdict(page, "No estimate")
            assert reason(page).startswith("The service says: The state cannot be written.")
            page.unroute("**/v1/live*")
            await_verdict(page, f"No estimate: {UNWRITTEN}")
        service.post(monitored.events(20, first=300, start=time.time() - 900.0))
        await_verdict(page, "Tolerable")
        assert opacity(page) == 1
        page.context.close()


def test_an_alarm_stays_one_while_nothing_can_be_written(browser, bundle_path, tmp_path):
    with monitored.serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(monitored.events(400) + monitored.events(200, first=400, shifted=0.9))
        page, _ = opened(browser, service.address, "desk")
        await_verdict(page, "Alarm")
        with no_space(service) as error:
            await_verdict(page, f"Alarm, and {UNWRITTEN}")
            assert (
                page.title().startswith("(!) Alarm")
                and reason(page).startswith("Since ")
                and error in reason(page)
            )
        page.context.close()


@pytest.mark.slow
def test_events_that_are_refused_are_told_beside_an_alarm_by_labels(browser, bundle_path, tmp_path):
    with monitored.serving(bundle_path, tmp_path / "s.sqlite") as service:
        now = time.time()
        service.post(monitored.events(400, start=now - 900.0))
        service.post(
            [{"id": f"e{i}", "correct": i % 2 == 0} for i in range(300, 400)], path="/v1/labels"
        )
        service.post(
            [{**e, "scores": {}} for e in monitored.events(100, first=400, start=now - 900.0)]
        )
        page, troubles = opened(browser, service.address, "desk")
        await_verdict(page, "Alarm")
        assert (
            service.post(monitored.events(200, first=600, start=now - 90_000.0)).json["late"] == 200
        )
        await_verdict(page, "Alarm, and most events are not counted")
        assert page.title().startswith("(!) Alarm, and most events are not counted")
        assert "events were refused" in reason(page)
        window = page.locator("#windows tbody tr").first
        assert (
            re.search(r"watched\)\s+0\s", window.inner_text())
            and "no estimate" in window.inner_text()
        )
        assert troubles == []
        page.context.close()


@pytest.mark.slow
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
        await_that(page, lambda: "/v1/live?after_event=150&" in asked[-1])
        page.locator("#figure-risk .u-over").hover(position={"x": 5, "y": 40})
        shown = page.locator("#figure-risk .now")
        await_that(page, lambda: ": " in shown.inner_text())
        assert shown.inner_text().startswith("15 Nov 2023"), (
            "of the new stream, which began a day later"
        )
        page.context.close()


@pytest.mark.slow
def test_how_old_the_newest_event_is_and_how_many_posts_were_refused_is_told(
    browser, bundle_path, tmp_path
):
    with monitored.serving(bundle_path, tmp_path / "s.sqlite") as service:
        page, _ = opened(browser, service.address, "phone", timezone_id="UTC")
        await_verdict(page, "Waiting for events")
        for i in range(3):
            assert service.post({"id": f"q{i}", "scores": {"knn_2": 1.0}}).status == 400
        await_text(
            page, "#reason", "3 posts refused since the service started; the answers say why."
        )
        service.post(monitored.events(301))
        await_verdict(page, "Tolerable")
        detail = page.locator("#events-detail")
        now = page.locator("#now")
        assert now.inner_text().endswith("up to event 301 of 14 Nov 2023, 22:18:20 UTC")
        assert "3 posts refused since the service started" in detail.inner_text()
        assert "The newest event is from 14 Nov 2023, 22:18:20 UTC" in reason(page)
        service.post(monitored.events(1, first=400, start=time.time() - 405.0))
        await_that(page, lambda: "newest event" not in reason(page))
        assert verdict(page) == "Tolerable" and "event 302" in now.inner_text()
        page.context.close()
