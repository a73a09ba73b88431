"""Makes surprise.npz: DSA, MDSA and LSA of dnn-tip, and Ledoit and Wolf's shrinkage of scikit-learn, for a small random case.

    python3 -m venv .venv-peers/supervisors && .venv-peers/supervisors/bin/pip install -r benchmarks/peers-supervisors.txt
    .venv-peers/supervisors/bin/python -W ignore tests/supervisors/oracle/make_surprise.py

Only the values are kept; the tests never import the peers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

CLASSES, WIDTH = 3, 6


def activations(rng: np.random.Generator, n: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows around a mean for every class, with correlated activations."""
    classes = rng.integers(0, CLASSES, n)
    means = 3 * np.eye(CLASSES, WIDTH)
    mixing = np.eye(WIDTH) + 0.3 * np.ones((WIDTH, WIDTH))
    return means[classes] + spread * rng.normal(size=(n, WIDTH)) @ mixing, classes


def main() -> None:
    """Compute and keep."""
    from dnn_tip.surprise import DSA, LSA, MDSA, MultiModalSA
    from sklearn.covariance import ledoit_wolf_shrinkage

    rng = np.random.default_rng(20240)
    training, training_classes = activations(rng, 240, 1.0)
    queries, predicted = activations(rng, 40, 1.6)
    dsa = DSA(training, training_classes)(queries, predicted)
    mdsa = MultiModalSA.build_by_class(training, training_classes, lambda a, _: MDSA(a))(
        queries, predicted
    )
    lsa = MultiModalSA.build_by_class(
        training, training_classes, lambda a, _: LSA(a, max_features=4)
    )(queries, predicted)
    few = training[:5]
    np.savez(
        Path(__file__).with_name("surprise.npz"),
        training=training,
        training_classes=training_classes,
        queries=queries,
        predicted=predicted,
        dsa=dsa,
        mdsa_squared=mdsa,
        lsa_of_4_features=lsa,
        few=few,
        ledoit_wolf_of_few=np.array(ledoit_wolf_shrinkage(few)),
    )


if __name__ == "__main__":
    main()
