"""Rules for estimators of the rate: a share with an interval for every window.

>>> from roadworthy.registry import get
>>> list(tells_more_where_more_is_shifted(get("estimators", "rogan_gladen")))
[]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from roadworthy.analysis.risk.rates import Calibrated, Rates
from roadworthy.conformance.rule import Rule
from roadworthy.registry import REQUIRED, Component

READS = ("verdicts", "bins", "batches")
MEANT = "windows x (cleared, alarmed), windows x score bins, or windows x batches x score bins"
CLEAN, SHIFTED = (500.0, 250.0, 150.0, 100.0), (100.0, 150.0, 250.0, 500.0)
"""Calibration rows by score bin."""
EVENTS, BATCH = 240, 8
RATES = (0.0, 0.35, 0.65, 1.0)


def declares_what_it_reads(component: Component) -> Iterator[str]:
    """It declares `reads`, needs no further parameter, and takes a confidence."""
    reads = component.traits.get("reads")
    if reads not in READS:
        yield f"it reads {reads!r}; expected one of {', '.join(READS)}: {MEANT}"
    required = [name for name, p in component.parameters.items() if p.default is REQUIRED]
    if required:
        yield f"{' and '.join(required)} has no default; an estimator can be named alone"
    if "confidence" not in component.parameters:
        yield "it takes no confidence; expected (counts, calibrated, *, confidence) -> Rates"


def tells_every_window_a_share_and_an_interval(component: Component) -> Iterator[str]:
    """Values within their intervals, these within [0, 1], and a wider one for more confidence."""
    counts, calibrated = example_windows(component)
    found, surer = (_told(component, counts, calibrated, confidence=level) for level in (0.8, 0.99))
    if not isinstance(found, Rates) or found.value.shape != (len(RATES),):
        yield f"it gave {found!r} for {len(RATES)} windows; expected Rates of as many values"
        return
    if not (
        (found.low >= 0.0)
        & (found.low <= found.value)
        & (found.value <= found.high)
        & (found.high <= 1.0)
    ).all():
        yield "a value lies outside its interval, or the interval outside [0, 1]"
    if (
        not (surer.high - surer.low >= found.high - found.low - 1e-9).all()
        or found.confidence != 0.8
    ):
        yield "an interval of more confidence is narrower, or does not say its confidence"


def tells_more_where_more_is_shifted(component: Component) -> Iterator[str]:
    """From windows without shift to windows of nothing else."""
    value = _told(component, *example_windows(component)).value
    if not (np.diff(value) >= 0.0).all() or not value[-1] - value[0] > 0.1:
        yield f"at shares of shift {RATES} it estimates {value.round(3).tolist()}"


def tells_a_window_the_same_beside_any_other(component: Component) -> Iterator[str]:
    """A window's estimate depends on no other window, and its input is not changed."""
    counts, calibrated = example_windows(component)
    before = counts.copy()
    together = _told(component, counts, calibrated).value
    alone = [
        float(_told(component, counts[i : i + 1], calibrated).value[0]) for i in range(len(counts))
    ]
    if not np.allclose(together, alone, atol=1e-9):
        yield f"windows estimated at {together.tolist()} together are {alone} alone"
    if not np.array_equal(before, counts):
        yield "it changed the counts it was given"


def example_windows(component: Component) -> tuple[np.ndarray, Calibrated]:
    """Windows of more and more shift in uniform batches, and a calibration, as it reads them."""
    sides = np.array([CLEAN, SHIFTED])
    reads = component.traits.get("reads")
    if reads == "verdicts":
        sides = np.stack([sides[:, :2].sum(axis=1), sides[:, 2:].sum(axis=1)], axis=1)
    shares = sides / sides.sum(axis=1, keepdims=True)
    rng, windows = np.random.default_rng(0), []
    for rate in RATES:
        shifted = np.arange(EVENTS // BATCH) < round(rate * EVENTS / BATCH)
        windows.append(
            np.stack([rng.multinomial(BATCH, shares[int(s)]) for s in shifted]).astype(np.float64)
        )
    counts = np.stack(windows)
    return counts if reads == "batches" else counts.sum(axis=1), Calibrated(sides[0], sides[1:])


def _told(
    component: Component, counts: np.ndarray, calibrated: Calibrated, *, confidence: float = 0.95
) -> Rates:
    rates: Rates = component.build(counts, calibrated, confidence=confidence)
    return rates


RULES: tuple[Rule, ...] = (
    declares_what_it_reads,
    tells_every_window_a_share_and_an_interval,
    tells_more_where_more_is_shifted,
    tells_a_window_the_same_beside_any_other,
)
