"""Numbers for Prometheus, in its text format (version 0.0.4).

>>> page = Page()
>>> page.add("roadworthy_events_total", "counter", "Events by what became of them.", [({"outcome": "accepted"}, 12)])
>>> print(page.text(), end="")
# HELP roadworthy_events_total Events by what became of them.
# TYPE roadworthy_events_total counter
roadworthy_events_total{outcome="accepted"} 12
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
STEPS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

Sample = tuple[Mapping[str, str], float | None]


class Page:
    """Families of samples, in the order in which they were added."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, name: str, kind: str, help: str, samples: Iterable[Sample]) -> None:
        """A family; samples without a number (None) are left out."""
        lines = [
            f"{name}{_labels(labels)} {_number(value)}"
            for labels, value in samples
            if value is not None
        ]
        if lines:
            self._lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}", *lines]

    def histogram(self, name: str, help: str, seen: Histogram) -> None:
        """A histogram with its buckets, sum and count."""
        self._lines += [f"# HELP {name} {help}", f"# TYPE {name} histogram"]
        total = 0
        for step, count in zip((*map(str, seen.steps), "+Inf"), seen.counts, strict=True):
            total += count
            self._lines.append(f'{name}_bucket{{le="{step}"}} {total}')
        self._lines += [f"{name}_sum {_number(seen.total)}", f"{name}_count {total}"]

    def text(self) -> str:
        """The page."""
        return "\n".join(self._lines) + "\n"


class Histogram:
    """Counts of durations.

    >>> seen = Histogram(); seen.add(0.004); seen.add(9.0)
    >>> seen.counts[2], seen.counts[-1], seen.total
    (1, 1, 9.004)
    """

    def __init__(self, steps: tuple[float, ...] = STEPS) -> None:
        self.steps, self.counts, self.total = steps, [0] * (len(steps) + 1), 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(self.steps, seconds)] += 1
        self.total += seconds


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    """
    >>> _number(3), _number(0.25), _number(math.inf), _number(True)
    ('3', '0.25', '+Inf', '1')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return (
        str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
    )
