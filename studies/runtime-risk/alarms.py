"""The alarm on real scores: steps from none to 30% shift, and a million events without any; one row a data set, kind and window.

    python studies/runtime-risk/alarms.py     # ten minutes on two cores

*Same*: all kinds calibrate, half of the rows of each, and the other half of one streams. *Unseen*: all but one calibrate, that one
streams. All detectors together. Tolerable is what half the step would cost, 15% of the calibrated kinds on average; a kind of which
30% is tolerable has no row. Clean rows calibrate from `ind_val` and stream from `ind_test`, drawn with replacement: each by itself,
or so that their shift scores are autocorrelated like AR(.9), of which 19 say as much as one.
"""

from __future__ import annotations

import csv
import math
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
import protocol
from scipy.signal import lfilter
from scipy.special import ndtr
from study import TABLES
from trials import CLEAN, Scores

from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Events, Monitor, Windows
from roadworthy.monitor.windows import CellScores

WINDOWS, STEP, TRIES, EVENTS, STATED, LONG = (100, 300), 0.3, 20, 1_000_000, 10, 6000
STREAMS = {"independent": 0.0, "AR(.9)": 0.9}
CHUNK = 20_000


class Row(NamedTuple):
    """What became of steps, or of events without shift, of which ten false alarms in a million were accepted."""

    data: str
    kind: str
    streamed: str
    window: int
    stream: str
    due: float
    """The share of wrong answers in the stream, over the tolerable."""
    within_two_windows: float
    within_6000: float
    delay: float
    false_alarms: float


def bundle_of(data: Scores, rows: np.ndarray, window: int) -> tuple[Bundle, float]:
    """What is calibrated on rows, and what is tolerable."""
    kind = np.where(data.fold[rows] == data.calibrates, CLEAN, data.fold[rows])
    wrong = ~data.correct[rows]
    error = {name: float(wrong[kind == name].mean()) for name in np.unique(kind)}
    shifted = np.mean([share for name, share in error.items() if name != CLEAN])
    tolerable = float((1.0 - STEP / 2) * error[CLEAN] + STEP / 2 * shifted)
    made = fit_calibration({n: c[rows] for n, c in data.columns.items()}, kind, ~wrong)
    rule = {"false_alarms": "1 per day", "events_per_day": EVENTS / STATED}
    tree, windows = accuracy_tree(), Windows((window,))
    return Bundle.compile(
        made, tree, subject=data.name, tolerable=tolerable, windows=windows, **rule
    ), tolerable  # type: ignore[arg-type]


def clean_rows(
    data: Scores, bundle: Bundle, rho: float, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Rows of the clean stream, whose shift scores are alike in a row where rho is above 0."""
    rows = data.rows(data.streams)
    noise = rng.normal(size=n) * math.sqrt(1.0 - rho**2)
    at = ndtr(lfilter([1.0], [1.0, -rho], noise, zi=[rho * rng.normal()])[0])
    shift = CellScores.of(bundle.calibration).shift
    order = np.argsort(shift[bundle.calibration.place(_columns(data, rows))], kind="stable")
    return rows[order[np.minimum((at * len(rows)).astype(np.int64), len(rows) - 1)]]


def watched(data: Scores, bundle: Bundle, rows: np.ndarray) -> list[int]:
    """After how many events alarms were raised."""
    monitor = Monitor(bundle)
    for start in range(0, len(rows), CHUNK):
        monitor.update(Events(None, None, columns=_columns(data, rows[start : start + CHUNK])))
    return [alarm.event for alarm in monitor.alarms if alarm.kind == "raised"]


def _columns(data: Scores, rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: column[rows] for name, column in data.columns.items()}


def steps_of(
    data: Scores, bundle: Bundle, shifted: np.ndarray, rho: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    """How often steps were noticed within two windows, how often at all, and after how many events; none after a false alarm."""
    window, delays = bundle.windows.longest, list[float]()
    for _ in range(TRIES):
        rows = clean_rows(data, bundle, rho, 12 * window + LONG, rng)
        after = np.flatnonzero(rng.random(LONG) < STEP) + 12 * window
        rows[after] = rng.choice(shifted, len(after))
        raised = [event - 12 * window for event in watched(data, bundle, rows)]
        if not raised or raised[0] > 0:
            delays.append(raised[0] if raised else math.inf)
    found = np.array(delays)
    told = found[np.isfinite(found)]
    return (
        float((found <= 2 * window).mean()),
        len(told) / len(found),
        float(np.median(told)) if len(told) else math.nan,
    )


def rows_of(name: str, window: int) -> list[Row]:
    """Every kind, calibrated and left out; false alarms of what is calibrated on all kinds."""
    data, found = protocol.published(name), list[Row]()
    drawn = np.random.default_rng(len(data.fold)).permutation(len(data.fold))
    half = np.isin(np.arange(len(data.fold)), drawn[::2])
    wrong = float((~data.correct[data.rows(data.streams)]).mean())
    for number, left_out in enumerate((None, *data.kinds)):
        known = np.isin(data.fold, [k for k in data.kinds if k != left_out]) & (
            half | (left_out is not None)
        )
        bundle, tolerable = bundle_of(
            data, np.flatnonzero((data.fold == data.calibrates) | known), window
        )
        how = "same" if left_out is None else "unseen"
        for stream, rho in STREAMS.items():
            rng = np.random.default_rng([window, number, int(10 * rho)])
            for kind in data.kinds if left_out is None else (left_out,):
                shifted = np.flatnonzero((data.fold == kind) & ~(half & (left_out is None)))
                error = (1.0 - STEP) * wrong + STEP * float((~data.correct[shifted]).mean())
                if error > tolerable:
                    noticed = steps_of(data, bundle, shifted, rho, rng)
                    found.append(
                        Row(name, how, kind, window, stream, error / tolerable, *noticed, math.nan)
                    )
            if left_out is None:
                rung = len(watched(data, bundle, clean_rows(data, bundle, rho, EVENTS, rng)))
                found.append(
                    Row(name, how, CLEAN, window, stream, wrong / tolerable, *3 * (math.nan,), rung)
                )
    return found


def main() -> None:
    """Write the table."""
    asked = [(name, window) for name in protocol.available() for window in WINDOWS]
    with ProcessPoolExecutor() as pool:
        found = [row for rows in pool.map(rows_of, *zip(*asked, strict=True)) for row in rows]
    with (TABLES / "alarms.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [
                Row._fields,
                *([f"{v:.3f}" if isinstance(v, float) else v for v in row] for row in found),
            ]
        )


if __name__ == "__main__":
    main()
