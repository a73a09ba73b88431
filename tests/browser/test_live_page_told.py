"""What the live page does not leave open: in which zone its times are, whether anybody answers, which alarm is on."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from live_pages import (
    COLOUR,
    COLUMNS_WITH,
    await_feed,
    await_ink,
    await_text,
    await_that,
    await_verdict,
    monitored,
    opened,
)

pytestmark = pytest.mark.browser


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "zone"),
    [("Europe/Berlin", "CET"), ("America/New_York", "GMT-5"), ("UTC", "UTC")],
    ids=["here", "there", "UTC"],
)
def test_every_time_names_its_zone_and_alarms_are_told_in_utc_too(
    browser, bundle_path, tmp_path, place, zone
):
    with monitored.serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(monitored.events(400) + monitored.events(200, first=400, shifted=0.9))
        page, troubles = opened(browser, service.address, "desk", timezone_id=place)
        await_verdict(page, "Alarm")
        alarm = service.get("/v1/alarms")["alarms"][0]
        at = datetime.fromtimestamp(alarm["time"], ZoneInfo(place))
        here = f"{at.day} {at:%b %Y, %H:%M:%S} {zone}"
        there = f"{at.astimezone(UTC).day} {at.astimezone(UTC):%b %Y, %H:%M:%S} UTC"
        assert f"Since {here}, event" in page.locator("#reason").inner_text()
        await_text(
            page,
            "#zone",
            "times are in UTC" if place == "UTC" else f"times are in {place} ({zone})",
        )
        cell = page.locator("#alarms tbody td").first
        assert cell.inner_text().split("\n") == ([here] if place == "UTC" else [here, there])
        moment = cell.locator("time")
        assert moment.get_attribute("title") == there
        assert datetime.fromisoformat(
            moment.get_attribute("datetime")
        ).timestamp() == pytest.approx(alarm["time"])
        assert re.fullmatch(rf"live, \d\d:\d\d:\d\d {zone}", page.locator("#feed").inner_text())
        page.locator("#figure-risk .u-over").hover()
        await_that(page, lambda: f" {zone}: " in page.locator("#figure-risk .now").inner_text())
        assert troubles == []
        page.context.close()


def test_a_service_that_no_longer_answers_is_not_called_tolerable(browser, bundle_path, tmp_path):
    with monitored.serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(monitored.events(300))
        page, _ = opened(browser, service.address, "desk")
        await_verdict(page, "Tolerable")
        page.route("**/v1/live*", lambda route: route.abort())
        await_verdict(page, "No answer")
        said = page.locator("#reason").inner_text()
        assert "has not answered since" in said and said.endswith("from then: Tolerable.")
        assert (
            page.title().startswith("(?) No answer")
            and page.locator("#status").get_attribute("data-status") == "lost"
        )
        assert float(page.locator(".facts").evaluate("e => getComputedStyle(e).opacity")) < 1
        page.unroute("**/v1/live*")
        await_verdict(page, "Tolerable")
        await_feed(page, "live")
        page.context.close()


def test_a_page_that_knows_nothing_says_nothing_and_a_wrong_token_is_told(
    browser, bundle_path, tmp_path
):
    with monitored.serving(
        bundle_path, tmp_path / "s.sqlite", ROADWORTHY_TOKEN=monitored.TOKEN
    ) as service:
        page, _ = opened(browser, service.address, "phone")
        await_verdict(page, "This service needs its token")
        assert (
            "None so far" not in page.locator("main").inner_text()
            and not page.locator("#charts").is_visible()
        )
        page.fill("#token", "another")
        page.click("#token-form button")
        await_text(page, "#reason", "The token is wrong.")
        page.wait_for_timeout(1500)
        assert page.locator("#reason").inner_text(), "and it stays until another is given"
        page.fill("#token", monitored.TOKEN)
        page.click("#token-form button")
        await_verdict(page, "Waiting for events")
        assert "None so far" in page.locator("#alarms").inner_text()
        page.context.close()


@pytest.mark.slow
def test_the_end_of_the_scores_alarm_is_shown_while_labels_keep_one_on(
    browser, bundle_path, tmp_path
):
    with monitored.serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(monitored.events(400))
        service.post(
            [{"id": f"e{i}", "correct": i % 2 == 0} for i in range(300, 400)], path="/v1/labels"
        )
        service.post(monitored.events(300, first=400, shifted=0.9))
        page, troubles = opened(browser, service.address, "desk")
        await_verdict(page, "Alarm")
        assert "The scores have raised one, too." in page.locator("#reason").inner_text()
        assert not page.locator("#figure-exceedance .ended").is_visible()
        service.post(monitored.events(400, first=700))
        reason = page.locator("#reason")
        await_that(page, lambda: "The scores’ own alarm has ended." in reason.inner_text())
        first = service.get("/v1/alarms")["alarms"][0]
        assert f"event {first['event']:,}." in reason.inner_text(), (
            "since the first alarm, and not the last"
        )
        await_that(page, page.locator("#figure-exceedance .ended").is_visible)
        points = {r["event"]: r for r in service.get("/v1/history")["readings"]}
        end = min(event for event, r in points.items() if event > 700 and not r["alarm_by_scores"])
        # How far apart points are depends on when they were asked for.
        before = max(event for event in points if event < end)
        assert points[end]["alarm"] and points[before]["alarm_by_scores"]
        assert page.locator("#alarms .status.cleared").count() == 0 and troubles == []
        page.context.close()


@pytest.mark.slow
def test_what_is_dragged_over_stays_until_somebody_goes_back(browser, bundle_path, tmp_path):
    with monitored.serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(monitored.events(400) + monitored.events(200, first=400, shifted=0.9))
        page, troubles = opened(browser, service.address, "desk")
        await_ink(page, "#figure-risk", "breached")
        page.locator("#figure-risk .u-over").scroll_into_view_if_needed()
        box = page.locator("#figure-risk .u-over").bounding_box()
        page.mouse.move(box["x"] + 0.1 * box["width"], box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 60, steps=5)
        page.mouse.up()
        breached = page.evaluate(COLOUR, "breached")
        marks = [
            lambda figure=f: page.evaluate(COLUMNS_WITH, [f"#figure-{figure}", breached])
            for f in ("risk", "accuracy")
        ]
        await_that(page, lambda: not any(mark() for mark in marks))
        page.wait_for_timeout(2500)  # readings that come meanwhile do not take it back
        assert not any(mark() for mark in marks) and page.locator("#zoomed").is_visible()
        page.click(".choice button[data-span='0']")
        await_that(page, lambda: all(mark() for mark in marks))
        assert not page.locator("#zoomed").is_visible() and troubles == []
        page.context.close()


@pytest.mark.slow
def test_that_nearly_all_events_are_late_comes_before_what_the_few_others_lack(
    browser, bundle_path, tmp_path
):
    with monitored.serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post({"id": "x", "scores": {"knn": 0.4}})
        page, troubles = opened(browser, service.address, "desk")
        await_verdict(page, "No estimate")
        assert service.post(monitored.events(300)).json["late"] == 300
        said = page.locator("#reason")
        await_that(page, lambda: "events were refused" in said.inner_text())
        assert "new --state" in said.inner_text()
        assert troubles == []
        page.context.close()


@pytest.mark.slow
def test_a_page_whose_events_are_all_refused_does_not_wait_for_any(browser, bundle_path, tmp_path):
    with monitored.serving(bundle_path, tmp_path / "s.sqlite") as service:
        page, _ = opened(browser, service.address, "desk")
        await_verdict(page, "Waiting for events")
        ahead = datetime.now(UTC).timestamp() + 9000.0
        assert service.post(monitored.events(50, start=ahead)).json["ahead"] == 50
        await_verdict(page, "No estimate")
        reason = page.locator("#reason").inner_text()
        assert "50 ahead" in reason
        page.context.close()
