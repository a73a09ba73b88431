"""What everyone who reads a run is told of its monitor: alarms that will be many or never ring, and whose monitor it is."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from sorter import SMALL, bundle_of, laid_out, run

from roadworthy.analysis.risk.amounts import amount
from roadworthy.analysis.risk.tolerable import NOBODY_SAID, nobody_said
from roadworthy.cli.commands.assess import _print
from roadworthy.cli.commands.replay import _head
from roadworthy.data.scores import open_scores
from roadworthy.execution.assess import Run
from roadworthy.monitor.bundle import Bundle
from roadworthy.monitor.replay import Replay, replay
from roadworthy.report.html import html
from roadworthy.report.run_view import RunView
from roadworthy.store import RunFolder
from roadworthy.web.views import bundle_view

COSTS = "risk: {unit: EUR per case, costs: {right: 0, wrong: 4}, tolerable: TOLERABLE}\nexecution:"
MANY = "alarms will be many"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return laid_out(tmp_path)


def warned(user: Path, tolerable: str, probability: str = "0.9") -> Run:
    likely = ("table: wang}", f"table: wang, probability: {probability}}}")
    return run(user, SMALL, likely, ("execution:", COSTS.replace("TOLERABLE", tolerable)))


def replayed(done: Run, user: Path) -> Replay:
    """The scores of a run's own cases as a stream."""
    bundle, cases = bundle_of(done), RunFolder.open(done.folder).cases()
    columns = {n: cases[f"score.{n}"] for n in bundle.calibration.names}
    pq.write_table(pa.table(columns), user / "today.parquet")
    return replay(bundle, open_scores(user / "today.parquet", columns=list(columns)), window=100)


def test_alarms_that_will_be_many_are_told_first_on_terminal_and_page(user: Path) -> None:
    view = RunView.open(warned(user, "0.1").folder)
    first = view.run["notes"][0]
    assert (
        first.startswith("monitor: with 90% of events shifted, as expected, the expected cost is")
        and MANY in first
    )
    assert "itself above the tolerable 0.1" in first and "must be reckoned with" not in first
    out = Console(record=True, width=400, file=io.StringIO())
    _print(view, out, quiet=False)
    assert f"note: {first}" in out.export_text()
    page = html(view)
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
    report, forecast = done.record["risk"], done.record["monitor"]["forecast"]
    assert forecast["rate"] == pytest.approx(0.32)
    assert forecast["risk"] == pytest.approx(by_hand) == pytest.approx(report["value"])
    assert forecast["low"] == pytest.approx(report["interval"]["low"], rel=0.03)
    assert forecast["high"] == pytest.approx(report["interval"]["high"], rel=0.03)
    between = f"{(forecast['risk'] + forecast['high']) / 2:.4f}"
    first = run(
        user, SMALL, ("table: wang}", kinds), ("execution:", COSTS.replace("TOLERABLE", between))
    ).record["notes"][0]
    assert f"and up to {forecast['high']:.4g} must be reckoned with, above the tolerable" in first


def test_a_limit_that_no_stream_comes_near_is_told_first(user: Path) -> None:
    notes = warned(user, "3.9").record["notes"]
    assert notes[0].startswith(
        "monitor: a stream of nothing but shifted events is expected to cost"
    )
    assert not any(MANY in n for n in notes)


def test_the_bundle_has_the_name_and_version_of_its_subject_beside_the_fingerprint(
    user: Path,
) -> None:
    versioned = ("python: subject.py:predict}", "python: subject.py:predict, version: '1.0'}")
    done = run(user, SMALL, versioned)
    bundle = bundle_of(done)
    assert bundle.subject == done.record["subject"]["fingerprint"] and bundle.title == "sorter 1.0"
    assert done.record["monitor"]["subject"] == "sorter 1.0"
    assert "of <b>sorter 1.0</b>" in html(RunView.open(done.folder))
    named = run(
        user, SMALL, (versioned[0], "python: subject.py:predict, name: eye}"), runs=user / "named"
    )
    assert bundle_of(named).title == "eye"
    first = _head(Path("bundle.json"), Path("today.parquet"), replayed(done, user), 3)[0]
    assert first.startswith("sorter 1.0: today.parquet: 480 events")


def test_one_kind_of_shift_is_told_first_and_that_nothing_could_be_tried(user: Path) -> None:
    view = RunView.open(run(user).folder)
    nothing, first, *_ = view.run["notes"]
    assert nothing.startswith("monitor: the scores do not tell shift from none")
    assert first.startswith("monitor: noise is the only kind of shift") and "a guess" in first
    assert first.endswith("; add circumstances of other kinds"), (
        "who calibrates from a table adds rows"
    )
    assert f"note: {first}" in printed(view)
    page = html(view)
    top = page[page.index("Read this first") : page.index('<section id="claims">')]
    assert "noise is the only kind of shift" in top[: top.index("</ul>")]
    assert "could not be tried: it knows one kind of shift only" in page
    other = "table: wang}\n  dim: {transform: contrast, levels: [2], table: wang}"
    two = RunView.open(run(user, SMALL, ("table: wang}", other)).folder)
    assert "only kind of shift" not in printed(
        two
    ) and "it knows one kind of shift only" not in html(two)


def test_what_was_chosen_for_the_user_stands_on_the_terminal(user: Path) -> None:
    view = RunView.open(run(user).folder)
    said = printed(view)
    assert (
        f"nobody said what is tolerable: {amount(view.run['monitor']['tolerable'])} wrong answers per case"
        in said
    )
    assert "false alarms are counted at 10,000 events a day, for want of a better number" in said
    assert "nobody said" not in printed(view, quiet=True)
    stated = (
        "execution:",
        COSTS.replace("TOLERABLE", "1") + "\nmonitor: {events_per_day: 500}\nexecution:",
    )
    own = (stated[0], stated[1].replace("\nexecution:\nmonitor", "\nmonitor"))
    told = printed(RunView.open(run(user, SMALL, own).folder))
    assert "nobody said" not in told and "for want of a better number" not in told


def unsaid(bundle: Bundle) -> list[str]:
    """What a bundle has noted of a limit that nobody chose."""
    return [note for note in bundle.made["notes"] if note.startswith(NOBODY_SAID)]


def test_a_limit_that_nobody_chose_stands_in_the_bundle_as_one_that_calibrate_chose(
    user: Path,
) -> None:
    done = run(user)
    bundle = bundle_of(done)
    said = nobody_said(bundle.tolerable or 0.0, "wrong answers per case")
    assert unsaid(bundle) == [said] and said.endswith("in which one event in five is shifted")
    assert said in bundle_view(bundle)["notes"], "the page shows it"
    assert [n for n in done.record["monitor"]["notes"] if "nobody said" in n] == [
        f"{said}; set yours with risk: {{…, tolerable: …}}"
    ]
    assert f"note: {said}" in _head(
        Path("bundle.json"), Path("today.parquet"), replayed(done, user), 3
    )


def test_it_is_chosen_by_the_events_that_should_be_clean_where_some_are_expected_to_be_shifted(
    user: Path,
) -> None:
    likely = run(user, SMALL, ("table: wang}", "table: wang, probability: 0.1}"))
    (said,) = unsaid(bundle_of(likely))
    assert said.endswith("in which one in five of the events that should be clean is shifted")
    assert unsaid(bundle_of(warned(user, "1"))) == [], "somebody chose it"


def test_an_alarm_is_due_or_not_for_shift_only(user: Path) -> None:
    clean, noise = run(user).record["monitor"]["kinds"]
    assert "due" not in clean and isinstance(noise["due"], bool)


def printed(view: RunView, *, quiet: bool = False) -> str:
    out = Console(record=True, width=400, file=io.StringIO())
    _print(view, out, quiet=quiet)
    return out.export_text()
