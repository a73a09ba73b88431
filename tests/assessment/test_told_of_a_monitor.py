"""What everyone who reads a run is told of its monitor: alarms that will be many or never ring, and whose monitor it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from sorter import SMALL, bundle_of, laid_out, run

from roadworthy.assessment.assess import Run
from roadworthy.report.html import html
from roadworthy.store import RunFolder
from roadworthy.store.record import Record

COSTS = "risk: {unit: EUR per case, costs: {right: 0, wrong: 4}, tolerable: TOLERABLE}\nexecution:"
MANY = "expect many alarms"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return laid_out(tmp_path)


def warned(user: Path, tolerable: str, probability: str = "0.9") -> Run:
    likely = ("table: wang}", f"table: wang, probability: {probability}}}")
    return run(user, SMALL, likely, ("execution:", COSTS.replace("TOLERABLE", tolerable)))


def test_alarms_that_will_be_many_are_the_first_note(user: Path) -> None:
    done = warned(user, "0.1")
    first = done.record.warnings[0]
    assert first.startswith("monitor:") and MANY in first and "0.1" in first
    page = html(Record.read(done.folder))
    top = page[page.index("Read this first") : page.index('<section id="claims">')]
    assert MANY in top[: top.index("</ul>")], "among the notes that are in sight"


def test_report_and_monitor_expect_the_same_cost_each_kind_as_often_as_the_file_says(
    user: Path,
) -> None:
    kinds = "table: wang, probability: 0.3}\n  dim: {transform: contrast, levels: [3], table: wang, probability: 0.02}"
    done = run(
        user, SMALL, ("table: wang}", kinds), ("execution:", COSTS.replace("TOLERABLE", "3"))
    )
    cases = RunFolder.open(done.folder).cases()
    wrong = {k: cases["failure"][cases["circumstance"] == k].mean() for k in ("", "noise", "dim")}
    by_hand = 4 * (0.68 * wrong[""] + 0.3 * wrong["noise"] + 0.02 * wrong["dim"])
    report, forecast = (
        done.record.plain()["sections"]["risk"],
        done.record.plain()["sections"]["monitor"]["forecast"],
    )
    assert forecast["rate"] == pytest.approx(0.32)
    assert forecast["risk"] == pytest.approx(by_hand) == pytest.approx(report["value"])
    assert forecast["low"] == pytest.approx(report["interval"]["low"], rel=0.03)
    assert forecast["high"] == pytest.approx(report["interval"]["high"], rel=0.03)
    between = f"{(forecast['risk'] + forecast['high']) / 2:.4f}"
    first = run(
        user, SMALL, ("table: wang}", kinds), ("execution:", COSTS.replace("TOLERABLE", between))
    ).record.warnings[0]
    assert f"{forecast['high']:.4g}" in first and "the limit" in first


def test_a_limit_that_no_stream_comes_near_is_the_first_note(user: Path) -> None:
    notes = warned(user, "3.9").record.warnings
    assert notes[0].startswith("monitor:") and "no alarm will be due" in notes[0]
    assert not any(MANY in n for n in notes)


def test_the_bundle_has_the_name_and_version_of_its_subject_beside_the_fingerprint(
    user: Path,
) -> None:
    versioned = ("python: subject.py:predict}", "python: subject.py:predict, version: '1.0'}")
    done = run(user, SMALL, versioned)
    bundle = bundle_of(done)
    assert bundle.subject == done.record.subject.fingerprint and bundle.title == "sorter 1.0"
    assert done.record.sections["monitor"].subject == "sorter 1.0"
    named = run(
        user, SMALL, (versioned[0], "python: subject.py:predict, name: eye}"), runs=user / "named"
    )
    assert bundle_of(named).title == "eye"


def test_one_kind_of_shift_is_warned_of(user: Path) -> None:
    done = run(user)
    said = [n for n in done.record.warnings if "noise is the only kind of shift" in n]
    assert said and said[0] in done.record.warnings[:3]
    assert "there is only one kind" in html(done.record)
    other = "table: wang}\n  dim: {transform: contrast, levels: [2], table: wang}"
    two = run(user, SMALL, ("table: wang}", other)).record
    assert not any("only kind of shift" in n for n in two.warnings)


def test_what_was_chosen_for_the_user_is_said(user: Path) -> None:
    chosen = run(user).record.sections["monitor"].chosen
    assert any("tolerable" in n for n in chosen) and any("10,000 events a day" in n for n in chosen)
    stated = COSTS.replace("TOLERABLE", "1").replace(
        "\nexecution:", "\nmonitor: {events_per_day: 500}\nexecution:"
    )
    told = run(user, SMALL, ("execution:", stated)).record.sections["monitor"].chosen
    assert not any("tolerable" in n or "a day" in n for n in told)
