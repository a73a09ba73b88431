"""The risk of a run, as a report sees it: the event tree with its numbers, what they rest on, and what a point would save.

>>> AssessedTree.read({"because": "no circumstance has a probability"}).because
'no circumstance has a probability'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roadworthy.analysis.risk.tree import Tree
from roadworthy.statistics.interval import Interval

from . import charts, numbers
from .figure import NARROW, WIDE, Figure
from .run_parts import number, read_interval

MEANINGS = {
    "p_shift": "how often a case is shifted, by the stated probabilities",
    "tpr": "shifted cases that raise an alarm",
    "tnr": "clean cases that raise none",
    "accuracy_clean": "right answers to clean cases",
    "accuracy_shifted": "right answers to shifted cases",
    "accuracy_clean_detected": "right answers to clean cases with an alarm",
    "accuracy_clean_undetected": "right answers to clean cases without one",
    "accuracy_shifted_detected": "right answers to shifted cases with an alarm",
    "accuracy_shifted_undetected": "right answers to shifted cases without one",
}
STATED = "as the assessment file states it"


@dataclass(frozen=True)
class Parameter:
    """A probability of the tree, and what one more point of it adds to the expected cost."""

    name: str
    meaning: str
    value: float
    slope: float | None


@dataclass(frozen=True)
class Kind:
    """Clean cases or a circumstance at a level."""

    name: str
    probability: float
    n: int


@dataclass(frozen=True)
class Losses:
    """A class of loss: outcomes that cost about as much, or cases whose score lets expect about as much."""

    range: str
    probability: float
    expected_loss: float
    adds: float
    outcomes: tuple[tuple[str, str], ...]
    """Each outcome with the paths that end in it."""
    wrong: float | None

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Losses:
        """From its record."""
        paths: dict[str, list[str]] = {}
        for leaf in record.get("leaves") or ():
            paths.setdefault(str(leaf["outcome"]), []).append(" > ".join(map(str, leaf["path"])))
        return cls(
            _range(number(record["low"]), number(record["high"])),
            float(record["probability"]),
            float(record["expected_loss"]),
            float(record["adds"]),
            tuple((outcome, "; ".join(ends)) for outcome, ends in paths.items()),
            number(record.get("wrong")),
        )


@dataclass(frozen=True)
class AssessedTree:
    """The event tree of a run."""

    because: str = ""
    """Why there is none."""
    unit: str = ""
    tree: Tree | None = None
    parameters: tuple[Parameter, ...] = ()
    value: float | None = None
    interval: Interval | None = None
    tolerable: float | None = None
    exceedance: float | None = None
    supervisor: str = ""
    kinds: tuple[Kind, ...] = ()
    outcomes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    loss_bins: tuple[Losses, ...] = ()
    loss_by_score: tuple[Losses, ...] = ()
    scored_by: str = ""
    worth: str = ""
    """What a point of the detector is worth against one of the classifier, where the tree has both."""
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> AssessedTree:
        """From its record in ``run.json``."""
        if record.get("because"):
            return cls(because=str(record["because"]))
        slopes = record.get("slopes") or {}
        return cls(
            unit=str(record["unit"]),
            tree=Tree.from_dict(record["tree"]),
            parameters=tuple(
                Parameter(name, MEANINGS.get(name, STATED), float(value), number(slopes.get(name)))
                for name, value in record["parameters"].items()
            ),
            value=number(record["value"]),
            interval=read_interval(record.get("interval")),
            tolerable=number(record.get("tolerable")),
            exceedance=number(record.get("exceedance")),
            supervisor=str(record.get("supervisor") or ""),
            kinds=tuple(
                Kind(str(k["name"]), float(k["probability"]), int(k["n"]))
                for k in record.get("kinds") or ()
            ),
            outcomes=record.get("outcomes") or {},
            loss_bins=tuple(Losses.read(one) for one in record.get("loss_bins") or ()),
            loss_by_score=tuple(Losses.read(one) for one in record.get("loss_by_score") or ()),
            scored_by=str(record.get("scored_by") or ""),
            worth=_worth(record.get("worth") or {}, str(record["unit"])),
            notes=tuple(map(str, record.get("notes") or ())),
        )

    @property
    def by_worth(self) -> tuple[Parameter, ...]:
        """What changes the cost most comes first."""
        return tuple(sorted(self.parameters, key=lambda p: -abs(p.slope or 0.0)))

    def summary(self) -> str:
        """The expected cost in a sentence or two."""
        shown = numbers.estimate(self.value, self.interval, None)
        words = f"The expected cost is {shown.value} {self.unit}"
        words += f" ({shown.interval} at {shown.confidence})" if self.interval else ""
        if self.tolerable is None:
            return f"{words}."
        return f"{words}; {numbers.limit(self.tolerable)} is tolerable. The probability that it costs more is {self.doubt}."

    @property
    def doubt(self) -> str:
        """The probability that the tolerable cost is exceeded; draws that all lie on one side do not say never."""
        if self.exceedance in (0.0, 1.0):
            return "below 0.01%" if self.exceedance == 0.0 else "above 99.99%"
        return numbers.value(self.exceedance, "percent")

    def figure(self) -> Figure | None:
        """The tree with its numbers."""
        if self.tree is None:
            return None
        caption = (
            "The event tree, from left to right: events, their branches with probabilities (a line is as thick as its branch is "
            "likely, dashed if never taken), and the outcomes. Each bar starts where the one above ends: together they are the "
            f"expected cost in {self.unit}."
        )
        caption += " Dashed vertical: the tolerable cost." if self.tolerable is not None else ""
        options: dict[str, Any] = {
            "title": "Expected cost by event tree",
            "tolerable": self.tolerable,
            "interval": self.interval,
        }
        values = {p.name: p.value for p in self.parameters}
        wide, narrow = (
            charts.event_tree(self.tree, values, width=w, **options) for w in (WIDE, NARROW)
        )
        return Figure("figure-risk", caption, wide, narrow)


def _worth(record: Mapping[str, Any], unit: str) -> str:
    """
    >>> saved = {"saved_by_detector": 0.39, "saved_by_classifier": 0.78}
    >>> _worth({"detector": ["tpr"], **saved, "points": 0.5}, "EUR").partition(":")[0]
    "One more point of tpr saves 0.390 EUR, as much as 0.500 points of the classifier's accuracy"
    """
    if not record:
        return ""
    names = list(map(str, record["detector"]))
    of = (
        names[0]
        if len(names) == 1
        else f"the detector's balanced accuracy ({' and '.join(names)} alike)"
    )
    points = number(record["points"])
    detector, classifier = (float(record[f"saved_by_{who}"]) for who in ("detector", "classifier"))
    first = f"One more point of {of} {_saves(detector)} {unit}"
    if points is None:
        other = f"one of the classifier's accuracy, in every condition, {_saves(classifier)}"
        return f"{first} and {other}: only what saves can be told in points of the other."
    as_much = f"as much as {numbers.value(points)} points of the classifier's accuracy"
    return f"{first}, {as_much}: one of these, in every condition, {_saves(classifier)}."


def _saves(cost: float) -> str:
    return f"{'saves' if cost >= 0.0 else 'adds'} {numbers.value(abs(cost))}"


def _range(low: float | None, high: float | None) -> str:
    """
    >>> _range(None, 100.0), _range(100.0, 1000.0), _range(1000.0, None), _range(6735.0, 6735.0), _range(1 / 3, 2 / 3)
    ('below 100', '100 to 1,000', '1,000 or more', '6,735', '0.333 to 0.667')
    """
    first, last = (None if end is None else _amount(end) for end in (low, high))
    if first is None:
        return f"below {last}"
    return first if first == last else f"{first} or more" if last is None else f"{first} to {last}"


def _amount(x: float) -> str:
    """As exact as it was set, where somebody set it; three digits of what was worked out."""
    return numbers.limit(x) if float(f"{x:.6g}") == x else numbers.value(x)
