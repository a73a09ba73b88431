"""Fitting holds at most the memory it was given, beside the reference rows and what it keeps."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from roadworthy.data.values import CLASS_SCORES
from roadworthy.registry import get
from roadworthy.subject.trace import ModuleTrace

ROWS, WIDTH, CLASSES, BUDGET_MB = 80_000, 64, 10, 16
"""Rows of 20 MiB in float32: not even another copy of them is within the budget, far less one in float64."""


def reference():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, ROWS)
    activations = rng.standard_normal((ROWS, WIDTH), dtype=np.float32)
    activations += (2 * rng.normal(size=(CLASSES, WIDTH)).astype(np.float32))[labels]
    n = np.arange(ROWS)
    scores = np.eye(CLASSES, dtype=np.float32)[labels]
    none = np.full(ROWS, None, dtype=object)
    return ModuleTrace(
        n, n, none, n, CLASS_SCORES, scores, {"layer.penultimate": activations}
    ), labels


REFERENCE, LABELS = reference()


def first(n):
    index = (REFERENCE.case[:n], REFERENCE.step[:n], REFERENCE.error[:n], REFERENCE.seconds[:n])
    columns = {name: values[:n] for name, values in REFERENCE.columns.items()}
    return ModuleTrace(*index, CLASS_SCORES, REFERENCE.output[:n], columns)


@pytest.mark.parametrize(
    "name", ["dissector", "kde", "mahalanobis", "knn", "dlpra_knn", "dsa", "mdsa", "lsa"]
)
def test_a_fit_stays_within_its_memory(name):
    options = {"layers": ("penultimate",), "l2": 1000.0} if name == "dissector" else {}
    supervisor = get("supervisors", name).bind(memory_mb=BUDGET_MB, **options)
    few = first(300)
    supervisor.fit(few, LABELS[:300])  # what is imported on first use is not what is measured
    supervisor.score(few)
    tracemalloc.start()
    try:
        supervisor.fit(REFERENCE, LABELS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    beyond = (peak - supervisor.kept_bytes) / 2**20
    assert beyond <= BUDGET_MB, f"{beyond:.1f} MiB beyond what is kept"


def test_a_copy_of_the_reference_rows_would_not_pass():
    tracemalloc.start()
    try:
        (REFERENCE.columns["layer.penultimate"] - np.float32(1)).std()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / 2**20 > BUDGET_MB
