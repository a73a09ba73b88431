"""How late does it arrive? A random forest tells four classes by the weather, the flight and an imprecise delay of departure.

    .venv-peers/risk/bin/python studies/runtime-risk/elsewhere/delays.py

Trained on three carriers in clear weather, January to April. Kinds: summer, fog, storm, other carriers in autumn (others), and a
delay whose sign is the wrong way round (sign).
"""

from __future__ import annotations

import numpy as np
from detectors import Answers, Reference, columns
from flights import arrived, isolation, table
from scores import CLEAN, Fold, handed_out, write

SEED, TRAIN_ROWS, CLEAN_ROWS, KIND_ROWS, TREES = 9, 8000, 1600, 1500, 150
WHEN = ["origin", "year", "month", "day", "hour"]
WEATHER = ["temp", "wind_speed", "precip", "visib", "dewp"]
HOME, OTHERS = ["UA", "B6", "EV"], ["DL", "AA", "US", "WN"]
BOUNDS = [-15, 0, 20]
"""Minutes late, between the classes."""
DETECTORS = ("max_softmax", "entropy", "knn", "mahalanobis")


def main() -> None:
    """The command."""
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(SEED)
    flown = (
        arrived()
        .merge(table("weather")[WHEN + WEATHER], on=WHEN, how="inner")
        .dropna(subset=WEATHER)
    )
    late = flown.dep_delay.clip(-20, 60) + rng.normal(0, 15, len(flown))
    told = [flown[c] for c in ("hour", "distance", "air_time", *WEATHER)]
    inputs = np.column_stack([*told, late]).astype(float)
    truth = np.digitize(flown.arr_delay.to_numpy(), BOUNDS)
    month, home = flown.month.to_numpy(), flown.carrier.isin(HOME).to_numpy()
    visible, wind = flown.visib.to_numpy(), flown.wind_speed.to_numpy()
    sizes = {"train": TRAIN_ROWS, **dict.fromkeys(CLEAN, CLEAN_ROWS), "sign": KIND_ROWS}
    rows = handed_out(np.flatnonzero((month <= 4) & home & (visible > 8)), sizes, rng)
    found = {
        "summer": np.isin(month, [6, 7]) & home,
        "fog": visible < 3,
        "others": flown.carrier.isin(OTHERS).to_numpy() & (month >= 9),
        "storm": (wind > 24) & (month > 4),
    }
    rows |= {
        name: rng.choice(np.flatnonzero(where), KIND_ROWS, replace=False)
        for name, where in found.items()
    }
    train = rows.pop("train")
    forest = RandomForestClassifier(TREES, min_samples_leaf=5, random_state=0).fit(
        inputs[train], truth[train]
    )
    mean, scale = inputs[train].mean(axis=0), inputs[train].std(axis=0)
    scaled = (inputs - mean) / scale
    seen, folds = Reference(scaled[train], truth[train]), []
    for name, some in rows.items():
        given = inputs[some].copy()
        given[:, -1] *= -1 if name == "sign" else 1
        hidden = (given - mean) / scale
        answers = Answers(hidden, np.log(forest.predict_proba(given) + 1e-6))
        said = {**columns(DETECTORS, answers, seen), "isolation": isolation(scaled[train], hidden)}
        folds.append(Fold(name, answers.told == truth[some], said))
    write("delays", folds)


if __name__ == "__main__":
    main()
