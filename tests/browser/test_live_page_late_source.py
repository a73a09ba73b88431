"""The live page where a source comes late: what the alarm watches is drawn as it came, and told apart from figures by time."""

from __future__ import annotations

import re
import time

import pytest
from live_pages import (
    COLOUR,
    COLUMNS_WITH,
    SIZES,
    await_ink,
    await_that,
    await_verdict,
    monitored,
    opened,
)

pytestmark = pytest.mark.browser


@pytest.fixture
def late_source(bundle_path, tmp_path):
    """A calm source that is on time; once it has been read, a shifted one, of minutes ago."""
    start = time.time() - 420.0

    def read(event: int) -> bool:
        return [r["event"] for r in service.get("/v1/history")["readings"]][-1:] == [event]

    with monitored.serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(monitored.events(400, start=start))
        monitored.until(lambda: read(400))
        service.post(monitored.events(200, first=400, start=start - 300.0, shifted=0.9))
        monitored.until(lambda: read(600))
        yield service


def test_no_end_is_drawn_of_an_alarm_that_is_on_and_the_evidence_is_drawn_as_it_came(
    browser, late_source
):
    page, troubles = opened(browser, late_source.address, "desk")
    await_verdict(page, "Alarm")
    await_ink(page, "#figure-exceedance", "breached")
    readings = late_source.get("/v1/history")["readings"]
    after, newest = [r for r in readings if r["event"] > 400], readings[-1]["time"]
    assert after[0]["time"] < newest - 100.0, "of times that had been told before"
    assert not page.locator("#figure-risk .ended").is_visible(), "no label was given"
    accent = page.evaluate(COLOUR, "accent")
    await_that(page, lambda: bool(page.evaluate(COLUMNS_WITH, ["#figure-exceedance", accent])))
    assert min(page.evaluate(COLUMNS_WITH, ["#figure-exceedance", accent])) > 0.9, (
        "calm up to the newest event, and risen there"
    )
    chart, said = page.locator("#figure-accuracy .u-over"), page.locator("#figure-accuracy .now")
    width = chart.bounding_box()["width"]
    known = {f"{100 * r['accuracy']:.1f}%" for r in after}
    for share in (0.7, 0.8, 0.9):
        chart.hover(position={"x": share * width, "y": 40})
        await_that(page, lambda: "%" in said.inner_text())
        assert said.inner_text().rpartition(": ")[2].partition(" ")[0] in known, (
            "with the late ones"
        )
    assert troubles == []
    page.context.close()


@pytest.mark.parametrize("size", list(SIZES))
def test_an_alarm_for_late_events_says_so_above_and_tells_its_own_chance(
    browser, late_source, size
):
    page, troubles = opened(browser, late_source.address, size)
    await_verdict(page, "Alarm")
    window = late_source.get("/v1/risk")["windows"][0]
    own, by_time = (
        page.evaluate("numbers.chance", window[name]) for name in ("alarm_log_odds", "log_odds")
    )
    assert window["alarm_log_odds"] > 0.0 > window["log_odds"], (
        "by time the last events look otherwise"
    )
    reason = page.locator("#reason").inner_text()
    assert re.search(
        r"The alarm watches events as they arrive, and \d+ of the last 100 to arrive are older",
        reason,
    )
    assert reason.endswith(
        f"By time the risk is {window['risk']:.3f} wrong answers per case; 0.200 is tolerable."
    )
    assert page.locator("#exceedance").inner_text() == own
    rule = page.locator("#exceedance-rule").inner_text()
    assert rule == f"of the last to arrive; by time {by_time}; alarm cleared below 27%"
    assert "as they arrive" not in page.locator("#remarks").inner_text(), "the same is said once"
    assert (
        page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        and troubles == []
    )
    page.context.close()
