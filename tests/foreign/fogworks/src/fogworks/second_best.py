"""A supervisor that is not registered by decorator: its entry point alone gives it a name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.values import CLASS_SCORES, Kind, probabilities
from roadworthy.subject.needs import Output, Request
from roadworthy.subject.trace import ModuleTrace


class SecondBest:
    """The second highest class probability."""

    needs: tuple[Request, ...] = (Output(),)
    fitted = False

    def applies_to(self, kind: Kind) -> str | None:
        """Class scores only."""
        return None if kind is CLASS_SCORES else f"it needs class scores, and there are {kind.name}"

    def fit(self, trace: ModuleTrace, truth: Any) -> None:
        """There is nothing to learn."""

    def score(self, trace: ModuleTrace) -> np.ndarray:
        """NaN where there is no answer."""
        scores = np.asarray(trace.output, dtype=np.float64)
        result = np.full(len(trace), np.nan)
        if trace.ok.any():
            result[trace.ok] = np.sort(probabilities(scores[trace.ok]), axis=1)[:, -2]
        return result

    def save(self, folder: Path) -> None:
        """There is nothing to keep."""

    def load(self, folder: Path) -> None:
        """There is nothing to read."""
