"""What the analyses of a system cost, and how that grows: python benchmarks/systems.py

Two modules, one supervisor each, the rows of one condition and of the clean data; one thread. Wanted: all analyses
of 100,000 rows under 10 s together. Kendall's tau is compared with scipy's, which gives no interval.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from roadworthy.analysis.systems import awareness, blame, propagation, rejection
from roadworthy.measures.scored import Scored

SIZES = (1_000, 10_000, 100_000)


def seconds(call: Callable[[], Any], rounds: int) -> float:
    """Of the processor, best of some rounds."""
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        call()
        taken.append(time.process_time() - started)
    return min(taken)


def measured(n: int) -> dict[str, float]:
    """Seconds of each analysis of n rows."""
    rng = np.random.default_rng(0)
    clean, here = rng.normal(size=(2, n)), rng.normal(0.3, 1, size=(2, n))
    words = rng.integers(5, 20, n).astype(float)
    wrong = rng.binomial(words.astype(int), 0.2).astype(float)
    scored = Scored.ratio(wrong, words, error=wrong / words, failure=wrong > 4, better="lower")
    marks = wrong > 4
    change = propagation.case_change(here[0], clean[0])
    errors = {
        frozenset(): wrong,
        frozenset("a"): wrong / 2,
        frozenset("b"): wrong / 3,
        frozenset("ab"): 0 * wrong,
    }
    columns = {"vro": here[0], "kde": here[1]}

    def rejected() -> None:
        orders = rejection.strategies(here[0], here[1], rng.random(n))
        orders["learned"] = np.argsort(
            -rejection.learned_scores(columns, marks, np.arange(n), rng=rng)
        )
        rejection.rejections(scored, orders, budgets=(0.01, 0.03, 0.05), rng=rng)

    def blamed() -> None:
        for part in blame.shapley(errors).values():
            blame.blamed(part, wrong, rng=rng)

    calls: dict[str, Callable[[], Any]] = {
        "Wilcoxon": lambda: awareness.signed_rank(here[0], clean[0]),
        "overlap of the top 1, 5, 10%": lambda: [awareness.top_overlap(*here, s) for s in (0.01, 0.05, 0.1)],
        "Spearman": lambda: awareness.spearman(*here),
        "Kendall with interval": lambda: propagation.kendall(change, wrong),
        "Kendall, scipy alone": lambda: kendalltau(change, wrong),
        "blame of two modules": blamed,
        "rejection, six strategies": rejected,
    }  # fmt: skip
    return {name: seconds(call, 1 if n > 50_000 else 3) for name, call in calls.items()}


def main() -> None:
    """The table."""
    found = {n: measured(n) for n in SIZES}
    print("| seconds | " + " | ".join(f"{n:,} rows" for n in SIZES) + " |")
    print("| --- |" + " ---: |" * len(SIZES))
    for name in found[SIZES[0]]:
        print(f"| {name} | " + " | ".join(f"{found[n][name]:.3f}" for n in SIZES) + " |")
    totals = [sum(v for k, v in found[n].items() if "alone" not in k) for n in SIZES]
    print("| all of ours | " + " | ".join(f"{t:.3f}" for t in totals) + " |")


if __name__ == "__main__":
    main()
