"""Twenty-five supervisors for a sample run: with verdicts, costs, remarks and a recommended set, and with gaps on purpose.

>>> run, findings = {}, []
>>> supervise(run, findings, {"fog": (0.86, 0.74, 0.58, 60)})
>>> len(run["supervisors"]), run["recommended"]["supervisors"]
(27, ['max_softmax', 'knn(k=5)', 'autoencoder'])
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from roadworthy.finding import About, Finding
from roadworthy.statistics import Interval, wilson

NAMES = (
    *(
        "max_softmax",
        "pcs",
        "deep_gini",
        "softmax_entropy",
        "max_logit",
        "energy",
        "mc_dropout_vr",
        "mc_dropout_mi",
    ),
    *(
        "mc_dropout_pe",
        "mc_dropout_ms",
        "ensemble_mi",
        "ensemble_pe",
        "ensemble_ms",
        "lsa",
        "mdsa",
        "dsa",
    ),
    *(
        "mahalanobis",
        "kde",
        "knn(k=5)",
        "knn(k=50)",
        "dissector(layer=penultimate)",
        "autoencoder",
        "typicality",
    ),
    *("grad_norm", "fused"),
)
RECOMMENDED = ("max_softmax", "knn(k=5)", "autoencoder")
SINGULAR = "the covariance was singular and was shrunk by 0.01"
MARKUP = "scored <b>after</b> [bold]pooling[/bold] & a rescaling"
FAILURES = 180
CLEAN_RIGHT = 1820
PLACES = 19
WORST_AT = 1 - 0.05 / PLACES
CORRECTED = f"the worst of {PLACES} places (Bonferroni): all their intervals hold together at 95%"


def supervise(run: dict[str, Any], findings: list[Finding], circumstances: dict[str, Any]) -> None:
    """Put the supervisors into a run's record and findings, in place of those that it has."""
    findings[:] = [f for f in findings if not f.about.supervisor]
    findings += _findings(circumstances)
    run["supervisors"] = [_record(i, name) for i, name in enumerate(NAMES)] + [
        _absent("vim", "the adapter gives no layer activations"),
        _absent("react", "the adapter gives no layer activations"),
    ]
    places = [(c, level) for c in circumstances for level in (1, 2, 3)]
    run["recommended"] = {
        "supervisors": list(RECOMMENDED),
        "why": "max_softmax catches most where the subject is unsure, knn(k=5) where inputs are unlike any seen",
        "covers": {c: {"by": RECOMMENDED[i % 3], "catch_rate": 0.9 - 0.02 * i} for i, c in enumerate(circumstances)},
        "miss_rate": {
            f"{c}@{level}": _rate(round(FAILURES * (0.05 + 0.03 * level)), FAILURES) for c, level in places
        } | {"clean": _rate(18, FAILURES)},
        "false_alarms": {"clean": _rate(164, CLEAN_RIGHT)} | {
            f"{c}@{level}": _rate(164 + 200 * level, CLEAN_RIGHT) for c, level in places
        },
        "worst": _rate(25, FAILURES, WORST_AT)
        | {"place": f"{next(iter(circumstances))}@3", "places": PLACES},
        "chosen_on": "calibration",
    }  # fmt: skip


def miss_rate(index: int, circumstance: int, level: int) -> float:
    """The sample's miss rate of a supervisor at a place, as a share of the failures."""
    return (
        round(FAILURES * (0.08 + 0.9 * ((7 * index + 11 * circumstance + 5 * level) % 29) / 29))
        / FAILURES
    )


def _findings(circumstances: dict[str, Any]) -> Iterator[Finding]:
    rng = np.random.default_rng(5)
    places = [
        (0, "", 0),
        *((i, c, level) for i, c in enumerate(circumstances, start=1) for level in (1, 2, 3)),
    ]
    for j, name in enumerate(NAMES):
        at = max(places, key=lambda place: miss_rate(j, place[0], place[2]))
        worst = round(miss_rate(j, at[0], at[2]) * FAILURES)
        yield Finding(
            "worst_miss_rate",
            worst / FAILURES,
            wilson(worst, FAILURES, confidence=WORST_AT),
            FAILURES,
            about=About(circumstance=at[1], level=at[2] or None, supervisor=name),
            better="lower",
            corrected=CORRECTED,
        )
        for i, c, level in places:
            about = About(circumstance=c, level=level or None, supervisor=name)
            if name == "typicality" and i == 2:
                continue
            if name == "kde" and not c:
                for quantity in ("auc_failure", "aupr_failure", "fpr95_failure", "miss_rate"):
                    yield Finding(
                        quantity,
                        math.nan,
                        None,
                        0,
                        about=about,
                        reason="there are no failures here",
                    )
                continue
            auc = float(np.clip(0.95 - 0.012 * j - 0.05 * level + rng.normal(0, 0.02), 0.38, 0.99))
            yield Finding(
                "auc_failure",
                auc,
                Interval(auc - 0.02, min(auc + 0.02, 1), 0.95, "delong"),
                2000,
                about=about,
            )
            yield Finding(
                "aupr_failure",
                auc - 0.3,
                Interval(auc - 0.35, auc - 0.26, 0.95, "bootstrap"),
                2000,
                about=about,
            )
            yield _share("fpr95_failure", round((1.1 - auc) * CLEAN_RIGHT), CLEAN_RIGHT, about)
            yield _share("miss_rate", round(miss_rate(j, i, level) * FAILURES), FAILURES, about)
            yield _share("alarm_rate", 400 + 60 * level, 2000, about)
            if c:
                versus = About(circumstance=c, level=level, supervisor=name, versus="clean")
                shift = min(0.5 + 0.12 * level, 0.99)
                for quantity, value in (
                    ("auc_shift", shift),
                    ("aupr_shift", shift - 0.1),
                    ("fpr95_shift", 1 - shift),
                ):
                    ends = Interval(value - 0.02, min(value + 0.02, 1), 0.95, "delong")
                    yield Finding(quantity, value, ends, 4000, about=versus)
            yield _share("false_alarm_rate", 80 + j + 100 * level, CLEAN_RIGHT, about)


def _share(quantity: str, k: int, n: int, about: About) -> Finding:
    return Finding(quantity, k / n, wilson(k, n), n, about=about, better="lower")


def _rate(k: int, n: int, confidence: float = 0.95) -> dict[str, Any]:
    found = wilson(k, n, confidence=confidence)
    return {"value": k / n, "interval": found.to_dict(), "n": n}


def _record(index: int, name: str) -> dict[str, Any]:
    notes = {"mdsa": [SINGULAR], "mahalanobis": [SINGULAR], "knn(k=5)": [MARKUP]}.get(name, [])
    return {
        "name": name, "module": "cnn", "applicable": True, "because": "",
        "parameters": {"k": 5} if name == "knn(k=5)" else {},
        "fit_seconds": 0.0 if index < 6 else 0.031 * index**2, "score_seconds": 0.0004 * 3.1 ** (index % 9),
        "subject_passes": 10 if name.startswith("mc_dropout") else 0,
        "kept_bytes": 0 if index < 6 else 1300 * 2 ** (index % 17), "notes": notes,
        "threshold": {"value": 0.5 + index / 10, "rule": "at_false_positive_rate", "chosen_on": 2000,
                      "expected_rate": 0.0505, "parameters": {"rate": 0.05}, "per_class": {}},
    }  # fmt: skip


def _absent(name: str, because: str) -> dict[str, Any]:
    return {
        "name": name,
        "module": "cnn",
        "applicable": False,
        "because": because,
        "parameters": {},
    }
