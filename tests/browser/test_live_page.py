"""The live page in a real Chromium while events flow: it follows the risk, shows what the alarm watches, and can be read."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from live_pages import (
    COLOUR,
    COLUMNS_WITH,
    SIZES,
    await_feed,
    await_ink,
    await_near,
    await_text,
    await_that,
    await_verdict,
    monitored,
    opened,
    verdict,
)

import roadworthy.web
from roadworthy.monitor import Windows
from roadworthy.monitor.bundle import expected_state
from roadworthy.numbers import amount, value

pytestmark = pytest.mark.browser


def test_the_page_follows_the_stream_from_tolerable_to_alarm_and_back(
    browser, bundle_path, tmp_path
):
    with monitored.serving(bundle_path, tmp_path / "state.sqlite") as service:
        pages = [opened(browser, service.address, size) for size in SIZES]
        desk, troubles = pages[0]
        await_feed(desk, "live")
        assert verdict(desk) == "Waiting for events"
        at, shift = 0, 0.02
        for wanted, shift in (("Tolerable", 0.02), ("Alarm", 0.9), ("Tolerable", 0.02)):
            for _ in range(3):
                assert service.post(monitored.events(80, first=at, shifted=shift)).status == 200
                at += 80
                desk.wait_for_timeout(350)
            for page, _ in pages:
                await_verdict(page, wanted)
            if wanted == "Alarm":
                assert desk.title().startswith("(!)")
                assert "is tolerable" in desk.locator("#reason").inner_text()
        watched, live = service.get("/v1/risk")["windows"][0], service.get("/v1/live")
        for page, _ in pages:
            await_text(page, "#events", f"{at:,}")
            await_near(page, "#accuracy", 100 * watched["accuracy"], 0.051)
            assert page.locator("#alarms tbody tr").count() == len(live["alarms"]) == 2
            assert page.locator("#windows tbody tr").count() == 2
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            said = page.locator("main").inner_text()
            for part in (
                "800 rows",
                "synthetic augmentations",
                "changed prevalence",
                "Forecast before release",
                "1 per month",
            ):
                assert part in said, part
            assert (
                page.locator("#subject").inner_text() == '<b onclick="alert(1)">lesion & 2.3.1</b>'
            )
            assert page.title().endswith("lesion & 2.3.1</b>")
        service.post(
            [{"id": f"e{i}", "correct": i % 8 > 0, "probability": 0.5} for i in range(0, at, 3)],
            "/v1/labels",
        )
        await_that(
            desk, lambda: "–" not in desk.locator("#windows td:last-child").all_inner_texts()
        )
        expected = {
            "figure-exceedance": ("accent", "ink", "breached", "met"),
            "figure-risk": ("accent", "ink", "breached", "edge"),
            "figure-accuracy": ("accent", "inconclusive", "breached"),
        }
        for figure, colours in expected.items():
            for colour in colours:
                await_ink(desk, f"#{figure}", colour)
        plotted = service.get("/v1/history")["readings"]
        watched = [r["alarm_log_odds"] for r in plotted if r["alarm_log_odds"] is not None]
        assert max(watched) > 0.0 > -1.0 > min(watched), (
            "from where it is raised to where it is cleared"
        )
        folder = os.environ.get("SCREENSHOTS")
        if folder:
            for (page, _), name in zip(pages, SIZES, strict=True):
                page.screenshot(path=f"{folder}/live-{name}.png", full_page=True)
        assert troubles == []
        service.kill()
        await_feed(desk, "lost")
        assert "no answer" in desk.locator("#feed").inner_text()
        for page, _ in pages:
            page.context.close()


def test_a_page_without_the_token_asks_for_it_and_dark_readers_get_dark_charts(
    browser, bundle_path, tmp_path
):
    with monitored.serving(
        bundle_path, tmp_path / "state.sqlite", ROADWORTHY_TOKEN=monitored.TOKEN
    ) as service:
        token = {"Authorization": f"Bearer {monitored.TOKEN}"}
        assert service.post(monitored.events(200), **token).status == 200
        page, _ = opened(browser, service.address, "desk", color_scheme="dark")
        page.locator("#token").wait_for(state="visible")
        assert page.locator("#events").inner_text() == "–"
        page.fill("#token", monitored.TOKEN)
        page.click("#token-form button")
        await_verdict(page, "Tolerable")
        assert not page.locator("#token-form").is_visible()
        dark = page.evaluate(COLOUR, "muted")
        page.emulate_media(color_scheme="light")
        assert page.evaluate(COLOUR, "muted") != dark
        await_ink(page, "#figure-risk", "muted")
        page.context.close()
        direct, _ = opened(browser, f"{service.address}/#token={monitored.TOKEN}", "phone")
        await_verdict(direct, "Tolerable")
        assert "token" not in direct.url
        direct.context.close()


@pytest.mark.slow
def test_a_bundle_without_a_limit_shows_what_it_can(browser, tmp_path):
    path = tmp_path / "bundle.json"
    monitored.bundle(tolerable=None).save(path)
    with monitored.serving(path, tmp_path / "state.sqlite") as service:
        page, troubles = opened(browser, service.address, "phone")
        service.post(monitored.events(150))
        await_verdict(page, "No limit set")
        assert (
            page.locator("#subject").inner_text() == monitored.SUBJECT
        )  # what no bundle calls otherwise
        assert page.locator("#exceedance").inner_text() == "–"
        await_ink(page, "#figure-risk", "accent")
        assert troubles == []
        page.context.close()


@pytest.mark.slow
def test_one_reading_is_a_point_in_minutes_of_its_own_with_the_thresholds(
    browser, bundle_path, tmp_path
):
    with monitored.serving(bundle_path, tmp_path / "state.sqlite") as service:
        page, troubles = opened(browser, service.address, "desk")
        service.post(monitored.events(15))
        await_verdict(page, "Tolerable")
        for figure, colours in {
            "exceedance": ("ink",),  # the alarm's window is not full, and it watches nothing yet
            "risk": ("accent", "ink"),
            "accuracy": ("accent",),
        }.items():
            for colour in colours:
                await_ink(page, f"#figure-{figure}", colour)
        assert len(service.get("/v1/history")["readings"]) == 1
        odds = service.get("/v1/risk")["windows"][0]["log_odds"]
        assert page.locator("#exceedance").inner_text() == page.evaluate("numbers.chance", odds)
        assert (
            page.locator("#exceedance-rule").inner_text()
            == service.get("/v1/live")["alarm_condition"]
        )
        assert troubles == []
        page.context.close()


def test_what_cannot_be_told_is_not_shown(browser, bundle_path, tmp_path):
    with monitored.serving(bundle_path, tmp_path / "state.sqlite") as service:
        page, troubles = opened(browser, service.address, "phone")
        service.post(monitored.events(1000))
        await_verdict(page, "Tolerable")
        strange = [
            {**event, "scores": {"knn": 40.0 + i % 7, "energy": -40.0}}
            for i, event in enumerate(monitored.events(200, first=1000))
        ]
        service.post(strange)
        await_text(page, "#reason", re.compile("no estimate|condition|unlike", re.IGNORECASE))
        for name in ("risk", "exceedance", "accuracy", "rate"):
            assert page.locator(f"#{name}").inner_text() == "–", name
        assert "no estimate" in page.locator("#windows tbody tr").first.inner_text()
        await_ink(page, "#figure-accuracy", "inconclusive-soft")
        assert page.locator("#figure-accuracy .untold").is_visible()
        kinds = {alarm["kind"] for alarm in service.get("/v1/alarms")["alarms"]}
        for kind in kinds:
            assert page.locator(f"#alarms .status:text-is('{kind}')").count(), kind
        assert (
            page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            and troubles == []
        )
        page.context.close()


@pytest.mark.slow
def test_no_line_is_drawn_across_a_time_without_events(browser, bundle_path, tmp_path):
    with monitored.serving(bundle_path, tmp_path / "state.sqlite") as service:
        page, troubles = opened(browser, service.address, "desk")
        service.post(monitored.events(400))
        service.post([{**e, "time": e["time"] + 1800.0} for e in monitored.events(400, first=400)])
        await_text(page, "#events", "800")
        await_ink(page, "#figure-accuracy", "accent")
        accent, ink = page.evaluate(COLOUR, "accent"), page.evaluate(COLOUR, "ink")

        def drawn(figure: str, colour: str) -> set[str]:
            places = page.evaluate(COLUMNS_WITH, [f"#figure-{figure}", colour])
            return {
                "left" if x < 0.3 else "middle" if 0.4 < x < 0.7 else "right" if x > 0.8 else ""
                for x in places
            } - {""}

        await_that(page, lambda: drawn("accuracy", accent) == {"left", "right"})
        assert drawn("exceedance", ink) == {"left", "middle", "right"}, (
            "thresholds hold without events, too"
        )
        assert troubles == []
        page.context.close()


@pytest.mark.parametrize(
    ("times", "gaps"),
    [
        ([0, 10, 20, 30, 1830, 1840, 1850], [3]),
        ([*range(0, 18_001, 3600), *range(18_060, 18_301, 60), *range(18_301, 18_310)], []),
        ([0, 1, 2, 3, 43, 44], []),
        ([0, 0, 0, 600, 600, 1200, 1800], []),
        ([0, 1800], []),
    ],
    ids=[
        "half an hour",
        "older readings are farther apart",
        "less than a minute",
        "batches",
        "two readings",
    ],
)
def test_what_is_long_without_events_is_told_by_what_is_usual_there(browser, times, gaps):
    page = browser.new_page()
    page.add_script_tag(path=Path(roadworthy.web.__file__).parent / "assets" / "numbers.js")
    assert page.evaluate("(times) => numbers.gaps(times)", times) == gaps
    page.close()


@pytest.mark.slow
def test_no_chance_is_told_more_exactly_than_it_is_known(browser, bundle_path, tmp_path):
    with monitored.serving(bundle_path, tmp_path / "state.sqlite") as service:
        page, _ = opened(browser, service.address, "desk")
        said = page.evaluate("[-179, -7, -2, 0, 4.7, 7, 40, 900].map(numbers.chance)")
        assert said == ["<0.1%", "<0.1%", "11.9%", "50.0%", "99.1%", ">99.9%", ">99.9%", ">99.9%"]
        assert page.evaluate("[-30, -6.9068, 0.5, 6.9068, 8, 30].map(numbers.threshold)") == [
            *("<0.01%", "0.1%", "62%", "99.9%", "99.97%", ">99.99%")
        ]
        page.context.close()


def test_costs_are_written_as_commands_write_them_and_places_of_an_axis_differ(browser):
    page = browser.new_page()
    page.add_script_tag(path=Path(roadworthy.web.__file__).parent / "assets" / "numbers.js")
    sizes = (
        0.0,
        1e-9,
        0.0000123,
        0.0006,
        0.00129,
        0.0099,
        0.0125,
        0.0625,
        0.4242,
        2.5,
        9.9996,
        12.25,
        100.5,
        1925.4,
        1e6,
    )
    costs = [*sizes, *(-size for size in sizes[2:])]
    assert page.evaluate("(costs) => costs.map(numbers.amount)", costs) == [
        amount(cost) for cost in costs
    ]
    for places, step, wanted in (
        ([0.0, 0.00025, 0.0005], 0.00025, ["0.00000", "0.00025", "0.00050"]),
        ([0.1, 0.2, 0.30000000000000004], 0.1, ["0.1", "0.2", "0.3"]),
        ([1000, 1000.5, 1001], 0.5, ["1,000.0", "1,000.5", "1,001.0"]),
        ([0, 500, 1000], 500, ["0", "500", "1,000"]),
    ):
        assert (
            page.evaluate("([places, step]) => numbers.ticks(places, step)", [places, step])
            == wanted
        )
    page.close()


@pytest.mark.slow
def test_a_stream_that_is_late_is_not_called_tolerable_and_an_event_ahead_holds_no_chart(
    browser, bundle_path, tmp_path
):
    with monitored.serving(bundle_path, tmp_path / "state.sqlite") as service:
        page, troubles = opened(browser, service.address, "desk")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        now = time.time()
        service.post(monitored.events(200, start=now - 300.0, step=0.1))
        service.post([{**monitored.events(1, first=300)[0], "time": now + 50.0}])
        await_verdict(page, "Tolerable")
        service.post(monitored.events(200, first=400, start=now - 280.0, step=0.1, shifted=0.9))
        await_verdict(page, "Alarm")
        monitored.until(
            lambda: page.wait_for_timeout(100) or "/v1/live?after_event=401&" in asked[-1]
        )
        assert (
            service.post(monitored.events(150, first=700, start=now - 9000.0, step=0.1)).json[
                "late"
            ]
            == 150
        )
        said = page.locator("#reason")
        monitored.until(
            lambda: page.wait_for_timeout(100) or "events were refused" in said.inner_text()
        )
        for name in ("risk", "exceedance", "accuracy", "rate"):
            assert page.locator(f"#{name}").inner_text() == "–", name
        page.locator("#alarms .status:text-is('no estimate')").wait_for()
        assert troubles == []
        page.context.close()


def test_what_labels_prove_is_what_the_page_says(browser, bundle_path, tmp_path):
    with monitored.serving(bundle_path, tmp_path / "s.sqlite") as service:
        now = time.time() - 500
        service.post(monitored.events(400, start=now))
        page, troubles = opened(browser, service.address, "desk")
        await_verdict(page, "Tolerable")
        labels = [{"id": f"e{i}", "correct": i % 2 == 0} for i in range(300, 400)]
        service.post(labels, path="/v1/labels")
        await_verdict(page, "Alarm")
        assert page.locator("#reason").inner_text().count("By 100 labels the risk is 0.5") == 1
        assert "By the scores alone it would be 0.0" in page.locator("#reason").inner_text()
        tile = {
            name: page.locator(f"#{name}").inner_text()
            for name in ("risk", "accuracy", "exceedance")
        }
        assert (
            tile["accuracy"] == "50.0%"
            and tile["risk"].startswith("0.5")
            and tile["exceedance"] == "Alarm by labels"
        )
        assert (
            page.locator("#accuracy-interval").inner_text() == "by 100 labels; 95%: 50.0% to 50.0%"
        )
        window = next(w for w in service.get("/v1/risk")["windows"] if w["window"] == "100")
        figures = [window[name] for name in ("risk", "risk_low", "risk_high")]
        assert page.locator(
            "#risk-beside"
        ).inner_text() == "by the scores: {:.3f} ({:.3f} to {:.3f})".format(*figures)
        assert re.match(
            r"by the scores: <?[\d.]+%; ", page.locator("#exceedance-rule").inner_text()
        )
        assert "labels" in page.locator("#alarms").inner_text().lower()
        assert not troubles


@pytest.mark.slow
def test_events_are_counted_as_they_are_numbered(browser, bundle_path, tmp_path):
    with monitored.serving(bundle_path, tmp_path / "s.sqlite") as service:
        items = monitored.events(400, start=time.time() - 500)
        service.post(
            [{**event, "scores": {}} if i % 3 == 0 else event for i, event in enumerate(items)]
        )
        page, troubles = opened(browser, service.address, "desk")
        await_verdict(page, "No estimate")
        assert page.locator("#events").inner_text() == "400"
        detail = page.locator("#events-detail").inner_text()
        assert detail.startswith("134 of them without a score; "), (
            "of all events, and not of those in the window"
        )
        assert " in the window, worth " in detail.split("; ")[1]
        assert not troubles


@pytest.mark.slow
def test_fading_and_adaptive_windows_are_on_the_page(browser, tmp_path):
    made = replace(monitored.bundle(), windows=Windows((100, 1000), 60.0, True))
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
        assert troubles == []
        page.context.close()


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

        await_that(page, lambda: says("No estimate now. As calibrated, 5.0% shifted"))
        assert service.post(monitored.events(200, shifted=0.9)).status == 200
        await_that(page, lambda: says("Now, window of 100 events") and page.evaluate(DRAWN))
        assert picture.get_attribute("alt").startswith("Now, window of 100 events. ")
        risk = page.locator("#risk").inner_text()
        assert says(f">{risk}<"), "header and tree are of one moment"
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        height = page.evaluate(DRAWN)
        assert height > (200 if size == "phone" else 150), "laid out for its width"
        assert not troubles
        folder = os.environ.get("SCREENSHOTS")
        if folder:
            page.locator("#tree").screenshot(path=f"{folder}/tree-{size}.png")


def test_an_empty_page_shows_a_command_that_sends_the_first_event(browser, bundle_path, tmp_path):
    with monitored.serving(bundle_path, tmp_path / "state.sqlite") as service:
        page, troubles = opened(browser, service.address, "phone")
        first = page.locator("#first code")
        first.wait_for(state="visible")
        program, *options = shlex.split(first.inner_text())
        assert (program, options[:3]) == ("curl", ["-X", "POST", f"{service.address}/v1/events"])
        event = json.loads(options[options.index("-d") + 1])
        assert set(event["scores"]) == {"knn", "energy"}
        assert not page.locator("#charts").is_visible()
        assert json.loads(service.post([event]).body)["accepted"] == 1
        await_verdict(page, "Tolerable")
        assert page.locator("#charts").is_visible() and not first.is_visible()
        assert troubles == []
        page.context.close()


def test_a_batch_that_arrived_at_once_is_drawn_event_by_event_up_to_now(
    browser, bundle_path, tmp_path
):
    with monitored.serving(bundle_path, tmp_path / "state.sqlite") as service:
        batch = monitored.events(600) + monitored.events(430, first=600, shifted=0.9)
        untimed = [{k: v for k, v in event.items() if k != "time"} for event in batch]
        assert service.post(untimed).status == 200
        page, troubles = opened(browser, service.address, "desk")
        await_verdict(page, "Alarm")
        steps = page.locator("#next li")
        assert steps.count() >= 3 and f"label-queue {service.address}" in " ".join(
            steps.all_inner_texts()
        )
        await_ink(page, "#figure-risk", "accent")
        accent = page.evaluate(COLOUR, "accent")
        places = page.evaluate(COLUMNS_WITH, ["#figure-risk", accent])
        assert max(places) - min(places) > 0.7 and max(places) > 0.95
        live = service.get("/v1/live")
        assert live["event"] == 1030 and "event 1,030" in page.locator("#now").inner_text()
        assert page.locator("#events").inner_text() == "1,030"
        assert troubles == []
        page.context.close()


def test_event_order_is_for_batches_and_not_for_old_readings_kept_further_apart(browser):
    page = browser.new_page()
    page.add_script_tag(path=Path(roadworthy.web.__file__).parent / "assets" / "numbers.js")
    hourly = [(3600.0 * i, 3600 * i) for i in range(100)]
    last = hourly[-1][0]
    recent = [(last + 5.0 * i, int(last) + 5 * i) for i in range(1, 700)]
    batch = [(last + 1e-6 * i, int(last) + 5000 * i) for i in range(1, 60)]
    for points, wanted in (
        (hourly, False),
        (hourly + recent, False),
        (hourly + batch, True),
        ([(last, i) for i in range(5)], True),
        (hourly[:2], False),
    ):
        readings = [{"time": time, "event": event} for time, event in points]
        assert page.evaluate("(readings) => numbers.crowded(readings)", readings) is wanted
    page.close()


def test_shares_are_written_as_commands_write_them(browser):
    page = browser.new_page()
    page.add_script_tag(path=Path(roadworthy.web.__file__).parent / "assets" / "numbers.js")
    shares = [0.0, 1.0, 0.5, 0.9285, 0.0715, 0.9995, 0.9996, 0.0004, 1e-7, 1 - 1e-7, 0.0312, 0.98]
    shown = page.evaluate("(shares) => shares.map(numbers.percent)", shares)
    assert shown == [value(share, "percent") for share in shares]
    page.close()
