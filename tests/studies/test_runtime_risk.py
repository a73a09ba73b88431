"""The study of runtime risk: its protocol is fair, its tables are whole, and what it found can be found again."""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

STUDY = Path(__file__).resolve().parents[2] / "studies" / "runtime-risk"
sys.path.insert(0, str(STUDY))
from trials import RATES, Scores, trials  # noqa: E402  (a study is no package)

AT_MOST = {"accuracy": {"same": 0.040, "unseen": 0.064}, "rate": {"same": 0.032, "unseen": 0.052}}
AT_LEAST = {"same": 0.93, "unseen": 0.88}
ALONE = {"accuracy": {"same": 0.057, "unseen": 0.084}, "rate": {"same": 0.094, "unseen": 0.144}}
"""The best simple estimator on single detectors."""
ALONE_FOUND = {
    "accuracy": {"same": 0.0577, "unseen": 0.0794},
    "rate": {"same": 0.0977, "unseen": 0.1302},
}
"""Ours on single detectors, on the fewer windows of these tests."""
NOT_TO_BEAT = ("knowing the nominal rate", "knowing the share in the window")


@pytest.fixture(scope="module")
def study():
    """The modules of the study, which is no package."""
    sys.path.insert(0, str(STUDY))
    try:
        import alignment
        import estimators
        import protocol
        import study as runner
        import summary

        yield SimpleNamespace(
            alignment=alignment,
            estimators=estimators,
            protocol=protocol,
            runner=runner,
            summary=summary,
        )
    finally:
        sys.path.remove(str(STUDY))
        sys.modules.pop("study", None)


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    fold = np.repeat(
        ["train", "ind_val", "ind_test", "fog", "snow", "night"], [50, 200, 200, 120, 120, 120]
    )
    strength = np.array([{"fog": 2.0, "snow": 1.5, "night": 2.5}.get(f, 0.0) for f in fold])
    columns = {"energy": rng.normal(strength), "knn": rng.normal(0.5 * strength)}
    return Scores("small", fold, rng.random(len(fold)) < np.where(strength > 0, 0.4, 0.9), columns)


def test_every_estimator_answers_every_window(study, small):
    trial = next(trials(small, per=2))
    listing = [*study.estimators.without_detectors(trial), *study.estimators.with_detectors(trial)]
    assert len({name for name, _ in listing}) == len(listing) >= 15
    for name, estimate in listing:
        assert np.isfinite(estimate.accuracy.value).all() and len(estimate.accuracy.value) == len(
            trial.nominal
        ), name


def test_shuffling_a_column_keeps_what_each_fold_holds(study, small):
    mixed = study.alignment.shuffled(small, ("knn",))
    for fold in np.unique(small.fold):
        rows = small.rows(fold)
        assert np.array_equal(
            np.sort(mixed.columns["knn"][rows]), np.sort(small.columns["knn"][rows])
        )
    assert np.array_equal(mixed.columns["energy"], small.columns["energy"])


def table(name: str) -> list[dict[str, str]]:
    with (STUDY / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_committed_table_has_every_baseline_and_ours_is_below_them():
    rows = [r for r in table("errors-published") if r["detectors"] in ("all", "none")]
    for target in ("accuracy", "rate"):
        for kind in ("same", "unseen"):
            errors = {
                r["estimator"]: float(r["mean over data sets"])
                for r in rows
                if (r["target"], r["kind"]) == (target, kind)
            }
            wanted = {
                "QuaPy ACC",
                "QuaPy PACC",
                "QuaPy EMQ",
                "QuaPy KDEy",
                "Rogan-Gladen, clipped",
                "fixed 50/50",
            }
            if target == "accuracy":
                wanted |= {"NannyML CBPE", "ATC", "DoC", "in-distribution accuracy"}
            assert wanted <= set(errors)
            rivals = {n: e for n, e in errors.items() if n not in (*NOT_TO_BEAT, "ours")}
            # KDEy finds the rate of a kind that was calibrated as well, to a ten-thousandth; nobody else does.
            assert errors["ours"] <= min(rivals.values()) + 2e-4, (
                target,
                kind,
                errors["ours"],
                rivals,
            )


def test_the_committed_alarms_notice_every_step_within_6000_events_and_ring_no_more_often_than_stated():
    rows = table("alarms")
    steps, quiet = (
        [r for r in rows if (r["streamed"] == "clean") == clean] for clean in (False, True)
    )
    assert {r["stream"] for r in steps} == {r["stream"] for r in quiet} == {"independent", "AR(.9)"}
    assert {float(r["within_6000"]) for r in steps} == {1.0}
    assert (
        min(float(r["within_two_windows"]) for r in steps if r["stream"] == "independent") >= 0.95
    )
    assert max(float(r["false_alarms"]) for r in quiet) <= 10


@pytest.fixture(scope="module")
def found(study):
    """Ours on the windows of the committed tables: all detectors together, and each alone on fewer windows."""
    protocol, runner = study.protocol, study.runner
    if not protocol.available():
        pytest.skip(f"the published scores are not here ({protocol.PUBLISHED})")
    records = defaultdict(list)
    for name in protocol.available():
        data = protocol.published(name)
        for trial in trials(data):
            records["all"] += list(
                runner.judged(trial, "all", "ours", study.estimators.ours(trial))
            )
        for trial in trials(data, per=8):
            for detector in data.columns:
                estimate = study.estimators.ours(trial.on((detector,)))
                records["alone"] += list(runner.judged(trial, detector, "ours", estimate))
    return records


def mean_of(study, records, target, kind, field):
    some = [r for r in records if r.target == target and r.kind == kind]
    return study.summary.over(study.summary.means(some, field, lambda r: ("x",))[("x",)])[:2]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["same", "unseen"])
@pytest.mark.parametrize("target", ["accuracy", "rate"])
class TestPublishedScores:
    def test_errors_are_at_most_what_was_asked_for(self, study, found, target, kind):
        assert (
            max(mean_of(study, found["all"], target, kind, "error")) <= AT_MOST[target][kind] + 5e-4
        )

    def test_intervals_cover(self, study, found, target, kind):
        assert min(mean_of(study, found["all"], target, kind, "coverage")) >= AT_LEAST[kind]

    def test_single_detectors_are_within_a_twentieth_of_the_best_simple_estimator(
        self, study, found, target, kind
    ):
        # Where a platform rounds otherwise the mean moves by less than a ten-thousandth.
        alone = mean_of(study, found["alone"], target, kind, "error")[1]
        assert alone <= ALONE_FOUND[target][kind] + 5e-4
        rows = [r for r in table("errors-published") if (r["kind"], r["target"]) == (kind, target)]
        table_of = {
            r["estimator"]: float(r["mean over folds"])
            for r in rows
            if r["detectors"] == "each alone"
        }
        best = min(ALONE[target][kind], table_of["quick combination"])
        assert table_of["ours"] <= 1.05 * best < table_of["Rogan-Gladen, clipped"]

    def test_the_committed_table_is_found_again(self, study, found, target, kind):
        row = next(
            r
            for r in table("errors-published")
            if (r["target"], r["kind"], r["detectors"], r["estimator"])
            == (target, kind, "all", "ours")
        )
        again = mean_of(study, found["all"], target, kind, "error")[0]
        assert again == pytest.approx(float(row["mean over data sets"]), abs=5e-4)


# trials of transfer

KINDS = ("fog", "snow", "night")


@pytest.fixture
def folds():
    rng = np.random.default_rng(0)
    fold = np.repeat(["train", "ind_val", "ind_test", *KINDS], [50, 200, 200, 120, 121, 122])
    columns = {"energy": rng.normal(size=len(fold)), "knn": rng.normal(size=len(fold))}
    return Scores("folds", fold, rng.random(len(fold)) < 0.7, columns)


def test_rows_that_calibrate_never_stream(folds):
    for trial in trials(folds, per=2, left_out=True):
        assert not set(trial.windows.ravel()) & set(trial.calibration)
        assert set(folds.fold[trial.clean]) == {"ind_val"}
        assert set(folds.fold[trial.windows].ravel()) <= {"ind_test", trial.streamed}
        assert set(trial.kind_of_row) == {"clean", *trial.calibrated}


def test_every_ordered_pair_of_kinds_is_calibrated_and_streamed_once(folds):
    found = [(t.kind, t.calibrated, t.streamed) for t in trials(folds, per=1)]
    expected = [("same", (a,), a) for a in KINDS] + [
        ("unseen", (a,), b) for a in KINDS for b in KINDS if a != b
    ]
    assert sorted(found) == sorted(expected)


def test_all_kinds_but_one_calibrate_where_one_is_left_out(folds):
    found = {
        t.streamed: t.calibrated
        for t in trials(folds, per=1, left_out=True)
        if t.kind == "left out"
    }
    assert found == {k: tuple(o for o in KINDS if o != k) for k in KINDS}


def test_the_truth_of_a_window_is_its_own(folds):
    trial = next(trials(folds, per=50))
    assert np.array_equal(np.unique(trial.nominal), RATES)
    assert np.allclose(
        trial.accuracy, [np.mean([folds.correct[r] for r in window]) for window in trial.windows]
    )
    assert np.allclose(trial.drawn, (folds.fold[trial.windows] == trial.streamed).mean(axis=1))
    deviation = np.sqrt(trial.nominal * (1 - trial.nominal) / 100)
    assert (np.abs(trial.drawn - trial.nominal) <= 5 * deviation + 1e-12).all()
