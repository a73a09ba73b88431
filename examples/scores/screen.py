"""How the monitor and a confidence-based estimate do on every kind of shift that was considered.

``python examples/scores/screen.py`` prints the table of the README, on images that stand in no table of this folder: 1,000 a kind,
all of them shifted, in ten windows of 100.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from make import (
    CALIBRATED,
    CLEAN_ROWS,
    HERE,
    KIND_ROWS,
    STRANGE_ROWS,
    TODAY_ROWS,
    UNSEEN,
    Pool,
    Scorer,
    shifted,
)

from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.analysis.simulation.estimators import Cbpe
from roadworthy.data.scores import read_scores

WINDOW, WINDOWS = 100, 10


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Screen kinds of shift")
    parser.add_argument(
        "--source",
        type=Path,
        default=Path("/usr/share/datasets/fashion-mnist"),
        help="the idx files",
    )
    pool, scorer = Pool(parser.parse_args().source), Scorer()
    pool.take(CLEAN_ROWS + KIND_ROWS * len(CALIBRATED) + TODAY_ROWS + STRANGE_ROWS)
    images, labels, ids = pool.take(WINDOW * WINDOWS)
    table = read_scores(HERE / "calibration.parquet")
    assert table.kind is not None and table.correct is not None
    calibration = fit_calibration(table.columns, table.kind, table.correct)
    estimator = Estimator(calibration, accuracy_tree())
    clean = table.kind == "clean"
    cbpe = Cbpe.fit(1 - table.columns["max_softmax"][clean], table.correct[clean])
    print("| kind | truth | confidence (CBPE) | monitor | truth in its interval | no estimate |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind in ("clean", *CALIBRATED, *UNSEEN):
        scores, correct = scorer(shifted(images, ids, np.full(len(ids), kind)), labels)
        cells = calibration.place(scores).reshape(WINDOWS, WINDOW)
        found = estimator.estimate([np.bincount(row, minlength=calibration.cells) for row in cells])
        truth = correct.reshape(WINDOWS, WINDOW).mean(axis=1)
        inside = ((found.accuracy_low <= truth) & (truth <= found.accuracy_high)).sum()
        silent = sum(word is not None for word in found.no_estimate)
        told = np.mean(cbpe.estimate(1 - scores["max_softmax"]))
        row = (kind, f"{truth.mean():.2f}", f"{told:.2f}", f"{found.accuracy.mean():.2f}")
        print(f"| {' | '.join(row)} | {inside} of {WINDOWS} | {silent} of {WINDOWS} |")


if __name__ == "__main__":
    main()
