"""Makes apfd.npz: APFD of dnn-tip (by the authors of AmbiGuess) and the ROC AUC of scikit-learn, for small random cases.

    python3 -m venv .venv-peers/supervisors && .venv-peers/supervisors/bin/pip install -r benchmarks/peers-supervisors.txt
    .venv-peers/supervisors/bin/python tests/analysis/oracle/make_apfd.py

Only the values are kept; the tests never import the peers. dnn-tip breaks ties by position: its
cases have none.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

CASES, SEEDS = 80, 6


def main() -> None:
    """Compute and keep."""
    from dnn_tip.apfd import apfd_from_order
    from sklearn.metrics import roc_auc_score

    kept: dict[str, list] = {name: [] for name in ("scores", "failed", "apfd", "auc", "tied_auc")}
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        failed = rng.random(CASES) < rng.uniform(0.05, 0.6)
        scores = failed * rng.uniform(-1, 2) + rng.normal(size=CASES)
        kept["scores"].append(scores)
        kept["failed"].append(failed)
        kept["apfd"].append(apfd_from_order(failed, np.argsort(-scores)))
        kept["auc"].append(roc_auc_score(failed, scores))
        kept["tied_auc"].append(roc_auc_score(failed, np.round(scores)))
    np.savez_compressed(Path(__file__).with_name("apfd.npz"), **kept)


if __name__ == "__main__":
    main()
