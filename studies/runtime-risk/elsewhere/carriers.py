"""Whose flight is it? A perceptron tells eight carriers by schedule, distance, time in the air and destination.

    .venv-peers/risk/bin/python studies/runtime-risk/elsewhere/carriers.py

Trained on flights from Newark, January to May. Kinds: two other airports (jfk, lga), another season (autumn), clocks set to another
time zone (utc), and sensors that are imprecise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from flights import arrived, hours, isolation, table
from perceptron import Perceptron
from scores import CLEAN, Fold, handed_out, write

SEED, TRAIN_ROWS, CLEAN_ROWS, KIND_ROWS, CARRIERS = 5, 6000, 1600, 1500, 8
CLOCKS, AIR_TIME, PLACE = [0, 1], 3, [4, 5]
"""Columns of the inputs."""
DETECTORS = ("max_softmax", "energy", "knn", "mahalanobis")


def utc(inputs: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """Five hours later, by the clock."""
    inputs = inputs.copy()
    inputs[:, CLOCKS] = (inputs[:, CLOCKS] + 5) % 24
    return inputs


def imprecise(inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """25 minutes of noise in the time in the air, three degrees in the place."""
    inputs = inputs.copy()
    inputs[:, AIR_TIME] += rng.normal(0, 25, len(inputs))
    inputs[:, PLACE] += rng.normal(0, 3, (len(inputs), len(PLACE)))
    return inputs


KINDS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    f.__name__: f for f in (utc, imprecise)
}


def main() -> None:
    """The command."""
    rng = np.random.default_rng(SEED)
    flown, airports = arrived(), table("airports").set_index("faa")
    flown = flown[flown.dest.isin(airports.index)]
    common = flown[flown.origin == "EWR"].carrier.value_counts().index[:CARRIERS]
    flown = flown[flown.carrier.isin(common)]
    clocks = [hours(flown[c].to_numpy()) for c in ("sched_dep_time", "sched_arr_time")]
    places = [airports[c].reindex(flown.dest).to_numpy() for c in ("lat", "lon")]
    late = flown.dep_delay.clip(-30, 180)
    inputs = np.column_stack([*clocks, flown.distance, flown.air_time, *places, late]).astype(float)
    truth = common.get_indexer(flown.carrier)
    origin, month = flown.origin.to_numpy(), flown.month.to_numpy()
    newark = origin == "EWR"
    sizes = {
        "train": TRAIN_ROWS,
        **dict.fromkeys(CLEAN, CLEAN_ROWS),
        **dict.fromkeys(KINDS, KIND_ROWS),
    }
    rows = handed_out(np.flatnonzero(newark & (month <= 5)), sizes, rng)
    found = {"jfk": origin == "JFK", "lga": origin == "LGA", "autumn": newark & (month >= 9)}
    rows |= {
        name: rng.choice(np.flatnonzero(where), KIND_ROWS, replace=False)
        for name, where in found.items()
    }
    train = rows.pop("train")
    subject = Perceptron.fit(inputs[train], truth[train], units=(64, 32), rounds=60)
    folds = []
    for name, some in rows.items():
        given = KINDS[name](inputs[some], rng) if name in KINDS else inputs[some]
        fold = subject.fold(name, given, truth[some], DETECTORS)
        folds.append(
            Fold(name, fold.correct, {**fold.columns, "isolation": isolation(inputs[train], given)})
        )
    write("carriers", folds)


if __name__ == "__main__":
    main()
