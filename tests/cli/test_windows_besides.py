"""Fading and adaptive windows, and what is believed before one is full, from the commands: what they say is what was counted."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roadworthy.analysis.risk.amounts import amount
from roadworthy.cli.app import run
from roadworthy.monitor import Bundle
from roadworthy.web.views import bundle_view

HALF_LIFE = 75.0
STEP = 1200
"""Events before everything is fog, of so many:"""
EVENTS = 1500


@pytest.fixture(scope="module")
def folder(tmp_path_factory, quick_alarms) -> Path:
    """A table, a stream with a step, and a bundle that reads all windows there are."""
    here, rng = tmp_path_factory.mktemp("besides"), np.random.default_rng(0)
    kind = np.repeat(["clean", "fog"], [1200, 600])
    right = rng.random(1800) < np.where(kind == "clean", 0.95, 0.4)
    pq.write_table(
        pa.table({"kind": kind, "correct": right, "knn": scores(kind == "fog", rng)}),
        here / "t.parquet",
    )
    pq.write_table(
        pa.table({"knn": scores(np.arange(EVENTS) >= STEP, rng)}), here / "today.parquet"
    )
    asked = ["--half-life", str(HALF_LIFE), "--adaptive", "--prior", "0.05", "--prior-events", "40"]
    said(here, "calibrate", "t.parquet", "--events-per-day", "3000", *asked)
    return here


def scores(shifted: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(2.5 * shifted)


def said(folder: Path, *arguments: str, codes: tuple[int, ...] = (0,)) -> dict:
    out = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out):
        assert run([*arguments, "--json"]) in codes
    return json.loads(out.getvalue())


def at_the_end(folder: Path) -> dict[str, dict]:
    found = said(folder, "replay", "t.bundle.json", "today.parquet", codes=(0, 1, 3))
    return {w["window"]: w for w in found["at_the_end"]}


def test_a_fading_window_is_that_of_weights_that_halve(folder):
    """Counted by hand over the whole stream: no event is left out, as the program does with those that weigh a millionth."""
    bundle, ends = Bundle.load(folder / "t.bundle.json"), at_the_end(folder)
    cells = bundle.calibration.place(
        {"knn": pq.read_table(folder / "today.parquet")["knn"].to_numpy()}
    )
    weights = [2.0 ** (-(EVENTS - 1 - i) / HALF_LIFE) for i in range(EVENTS)]
    total, squares = sum(weights), sum(w * w for w in weights)
    counts = np.zeros(bundle.calibration.cells)
    for cell, weight in zip(cells.tolist(), weights, strict=True):
        counts[cell] += weight * total / squares
    independent = ends["100"]["effective_n"] / 100  # of one event, where they resemble each other
    fading = ends["decay"]
    assert fading["effective_n"] / independent == pytest.approx(total**2 / squares, rel=1e-5)
    assert (fading["label"], fading["half_life"]) == ("fading, half after 75 events", HALF_LIFE)
    expected = bundle.estimator.estimate(counts, shrink=independent)
    for name in ("rate", "accuracy", "risk"):
        assert fading[name] == pytest.approx(float(getattr(expected, name)[0]), abs=1e-4), name


def test_the_adaptive_window_shrinks_to_what_came_after_a_step(folder, tmp_path):
    ends = at_the_end(folder)
    assert ends["adaptive"]["n"] == pytest.approx(EVENTS - STEP, abs=30)
    assert ends["adaptive"]["label"] == "since the last change" and ends["adaptive"]["rate"] > 0.95
    assert ends["1000"]["rate"] < 0.4
    stream = pq.read_table(folder / "today.parquet").slice(0, STEP)
    pq.write_table(stream, tmp_path / "before.parquet")
    found = said(
        folder, "replay", "t.bundle.json", str(tmp_path / "before.parquet"), codes=(0, 1, 3)
    )
    before = {w["window"]: w for w in found["at_the_end"]}
    assert before["adaptive"]["n"] == STEP, (
        "nothing has changed yet, and no more than 20 half-lives are held"
    )


def test_calibrate_says_what_is_read_besides_and_carries_the_prior_in_the_bundle(folder, capsys):
    made = Bundle.load(folder / "t.bundle.json")
    assert made.prior == pytest.approx((2.0, 38.0)) and made.windows.names == (
        "100",
        "1000",
        "decay",
        "adaptive",
    )
    with contextlib.chdir(folder):
        assert (
            run(
                [
                    "calibrate",
                    "t.parquet",
                    "--out",
                    "again.json",
                    "--half-life",
                    "75",
                    "--prior",
                    "0.05",
                ]
            )
            == 0
        )
    told = capsys.readouterr().out
    assert "Read besides: decay (fading, half after 75 events)." in told
    assert "Before a window is full: 5% shifted, worth 20 events" in told
    content = said(folder, "calibrate", "t.parquet", "--out", "plain.json")
    assert [w["window"] for w in content["windows"]] == ["100", "1000"] and content["prior"] is None
    assert json.loads((folder / "plain.json").read_text())["prior"] == [0.5, 0.5], (
        "as bundles always had it"
    )


def test_the_forecast_is_that_of_the_rate_that_is_expected(folder, capsys):
    """A stream of 5% fog: in the bundle, from which page and tree are drawn, in what is said and in what is exported."""
    made = Bundle.load(folder / "t.bundle.json")
    with contextlib.chdir(folder):
        assert run(["calibrate", "t.parquet", "--out", "again.json", "--prior", "0.05"]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert run(["report", "again.json", "--format", "open_psa", "--out", "psa.xml"]) == 0
    right = {kind: made.calibration.accuracy(kind) for kind in ("clean", "fog")}
    assert made.forecast.rate == pytest.approx(0.05)
    assert made.forecast.risk == pytest.approx(
        1 - 0.95 * right["clean"] - 0.05 * right["fog"], abs=0.001
    )
    assert bundle_view(made)["forecast"] == asdict(made.forecast)
    sure = f"{amount(made.forecast.low)} to {amount(made.forecast.high)}"
    assert (
        f"Forecast before release, with 5% shifted: {amount(made.forecast.risk)} wrong answers per case ({sure})."
        in told
    )
    assert '<label>shifted: p_shift</label> <float value="0.05" />' in " ".join(
        (folder / "psa.xml").read_text().split()
    )
    content = said(folder, "calibrate", "t.parquet", "--out", "plain.json")
    assert content["forecast"]["rate"] == 0.0
    assert content["tolerable"] == made.tolerable, (
        "what one event in five costs, whatever is expected"
    )


def test_that_the_expected_stream_is_not_tolerable_is_warned_of(folder):
    many = said(folder, "calibrate", "t.parquet", "--out", "many.json", "--prior", "0.4")
    warned = [
        w
        for w in many["warnings"]
        if w.startswith("with 40% of events shifted, as expected, the expected cost is")
    ]
    assert (
        warned and "itself above the tolerable" in warned[0] and "alarms will be many" in warned[0]
    )
    few = said(folder, "calibrate", "t.parquet", "--out", "few.json", "--prior", "0.05")
    assert not [w for w in few["warnings"] if "as expected" in w]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            ["--half-life", "0.5"],
            "--half-life: a half-life is a number of events, from 1 to 100,000, found 0.5",
        ),
        (["--prior", "0"], "--prior: a rate of shift that is expected lies above 0 and below 1"),
        (
            ["--prior", "0.1", "--prior-events", "-3"],
            "worth a number of events above 0, found 0.1 and -3",
        ),
        (
            ["--prior-events", "20"],
            "--prior-events says how many events --prior is worth: add --prior 0.05",
        ),
    ],
)
def test_what_cannot_be_read_or_believed_is_refused_by_its_option(folder, wrong, says, capsys):
    with contextlib.chdir(folder):
        assert run(["calibrate", "t.parquet", "--out", "wrong.json", *wrong]) == 2
    assert (
        says in " ".join(capsys.readouterr().err.split()) and not (folder / "wrong.json").exists()
    )
