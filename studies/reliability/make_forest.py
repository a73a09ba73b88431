"""The random forest of Zhao et al. 2021 as thresholds: made with scikit-learn, answered without it.

    python3 -m venv .venv-forest && .venv-forest/bin/pip install scikit-learn==1.9.1
    .venv-forest/bin/python studies/reliability/make_forest.py POINTS.csv forest.npz   # x_i1, x_i2, l_i

Ten trees of two features are constant between the thresholds of either feature, so that a table of
classes between them is the forest, exactly. scikit-learn compares in float32: a threshold is
rounded down to float32, which changes no comparison. `forest_ds1.npz` was made from the 1,000
points of "Synth. DS-1", which have no licence and are not part of this project: it holds midpoints
between training values, and classes, but no point.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Forest:
    """A classifier of two features that is constant between thresholds."""

    edges: tuple[np.ndarray, np.ndarray]
    """By feature, the sorted float32 thresholds; a value equal to one lies below it."""
    table: np.ndarray
    """uint8: the class between thresholds, (len(edges[0]) + 1, len(edges[1]) + 1)."""

    @classmethod
    def load(cls, path: Path | str) -> Forest:
        with np.load(path) as held:
            shape = (len(held["first"]) + 1, len(held["second"]) + 1)
            bits = np.unpackbits(held["bits"], count=shape[0] * shape[1])
            return cls((held["first"], held["second"]), bits.reshape(shape))

    def save(self, path: Path | str) -> None:
        """Two classes: a bit each."""
        np.savez_compressed(
            path, first=self.edges[0], second=self.edges[1], bits=np.packbits(self.table)
        )

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """The class of every point."""
        parts = [points[start : start + 10_000] for start in range(0, len(points), 10_000)]
        return np.concatenate([self._answered(part) for part in parts])

    def _answered(self, points: np.ndarray) -> np.ndarray:
        """Points of one cell lie between few thresholds, and often in one class."""
        columns = [np.asarray(points[:, k], dtype=np.float32) for k in (0, 1)]
        ends = [
            np.searchsorted(edges, [column.min(), column.max()])
            for edges, column in zip(self.edges, columns, strict=True)
        ]
        near = self.table[ends[0][0] : ends[0][1] + 1, ends[1][0] : ends[1][1] + 1]
        if near.min() == near.max():
            return np.full(len(points), near[0, 0])
        at = [
            np.searchsorted(edges[low:high], column)
            for edges, column, (low, high) in zip(self.edges, columns, ends, strict=True)
        ]
        return near[at[0], at[1]]


def fitted(points: np.ndarray, labels: np.ndarray) -> Forest:
    """As the authors: 80% of the rows (random_state 1), ten trees (random_state 5)."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split

    train, held, train_labels, held_labels = train_test_split(
        points, labels, test_size=0.2, random_state=1
    )
    model = RandomForestClassifier(n_estimators=10, random_state=5).fit(train, train_labels)
    wrong = int((model.predict(held) != held_labels).sum())
    print(f"held-out errors: {wrong} of {len(held)}")
    trees = [member.tree_ for member in model.estimators_]
    edges = []
    for feature in (0, 1):
        exact = np.concatenate([t.threshold[t.feature == feature] for t in trees])
        rounded = exact.astype(np.float32)
        down = np.where(rounded > exact, np.nextafter(rounded, np.float32(-np.inf)), rounded)
        edges.append(np.unique(down.astype(np.float32)))
    # A value equal to a threshold lies below it; above the last one any larger value will do.
    above = [np.append(e, np.nextafter(e[-1], np.float32(np.inf))) for e in edges]
    grid = np.stack(np.meshgrid(*above, indexing="ij"), axis=-1).reshape(-1, 2)
    table = model.predict(grid).astype(np.uint8).reshape(len(above[0]), len(above[1]))
    forest = Forest((edges[0], edges[1]), table)
    tried = np.random.default_rng(0).random((1_000_000, 2))
    assert (forest(tried) == model.predict(tried)).all()
    assert all(forest(part)[0] == model.predict(part)[0] for part in np.split(tried[:500], 500))
    return forest


if __name__ == "__main__":
    rows = np.loadtxt(sys.argv[1], delimiter=",", skiprows=1)
    fitted(rows[:, :2], rows[:, 2].astype(int)).save(sys.argv[2])
