"""The live page's table of windows: those that fade or begin at a change stand beside the others, by names that say so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from live_pages import await_that, monitored, opened

from roadworthy.monitor import Windows
from roadworthy.monitor.bundle import Beforehand
from roadworthy.monitor.self_test import expected_state

pytestmark = pytest.mark.browser


def test_fading_and_adaptive_windows_and_what_was_believed_are_on_the_page(browser, tmp_path):
    made = replace(
        monitored.bundle(),
        windows=Windows((100, 1000), 60.0, True),
        prior=Beforehand(0.05, 20.0).pseudo_events,
    )
    replace(made, self_test=expected_state(made)).save(tmp_path / "bundle.json")
    with monitored.serving(tmp_path / "bundle.json", tmp_path / "state.sqlite") as service:
        page, troubles = opened(browser, service.address, "desk")
        service.post([*monitored.events(700), *monitored.events(120, first=700, shifted=1.0)])
        names = page.locator("#windows tbody tr td:first-child")
        wanted = [
            "100 events (watched)",
            "1,000 events",
            "fading, half after 60 events",
            "since the last change",
        ]
        await_that(page, lambda: names.all_inner_texts() == wanted)
        read = page.locator("#windows tbody tr td:nth-child(2)")
        await_that(page, lambda: read.all_inner_texts()[:3] == ["100", "820", "820"])
        assert 100 <= int(read.all_inner_texts()[3]) <= 140
        assert "1,000 events: 820 of 1,000 events so far" in page.locator("#remarks").inner_text()
        assert "(5% shifted, worth 20 events)" in page.locator("#remarks").inner_text()
        assert troubles == []
        page.context.close()
