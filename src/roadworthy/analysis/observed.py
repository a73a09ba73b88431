"""What was observed: the cases of one condition, scored. The tables that analyses take in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from roadworthy.finding import About
from roadworthy.measures.scored import Scored

CLEAN = ""
MET_NONE = "none"
"""What a case of a mixture met if it met no circumstance."""


@dataclass(frozen=True)
class Observed:
    """The cases of one condition, in the order of their samples."""

    circumstance: str
    level: float | None
    samples: np.ndarray
    """Sample ids; the same ids in the same order under another condition make the two paired."""
    groups: np.ndarray | None
    scored: Scored
    failure: np.ndarray
    """Which cases failed, by the assessment's own criterion."""
    unanswered: np.ndarray
    """Which cases gave no answer at all; they are counted as wrong."""
    scores: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Supervisors' scores."""
    slices: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Slice columns: a label a case, "missing" where the data has none."""
    significance: int | None = None
    versus: str = "clean"
    role: str = "test"
    """The data role of its samples: ids of two roles have nothing to do with each other."""
    slice: str = ""
    """``column=value`` where it is only that part of a condition."""
    predicted: np.ndarray | None = None
    """The class that was answered, -1 where there is none; None where answers are no classes."""
    valid: bool = True
    """Whether its inputs have a right answer; without one the measure is not defined, and every answer is wrong."""
    has_parent: bool = True
    """Whether a case is made of the sample whose id it has; those of a source are not."""
    met: np.ndarray | None = None
    """Of a mixture: which circumstances each case met, in words."""
    truth: np.ndarray | None = None
    """The true class; None where answers are no classes."""
    outputs: np.ndarray | None = None
    """The subject's scores, a column a class; None where answers are no classes."""
    label_probabilities: np.ndarray | None = None
    """The truth as a distribution, a column a class; None where the data has labels alone."""

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def about(self) -> About:
        """As the subject matter of a finding."""
        return About(circumstance=self.circumstance, level=self.level, slice=self.slice)

    @property
    def name(self) -> str:
        """``snow@3``, or "clean"."""
        return str(self.about)

    @property
    def group_count(self) -> int | None:
        """How many groups there are; None if the data has none."""
        return None if self.groups is None else len(set(self.groups.tolist()))

    def take(self, rows: np.ndarray) -> Observed:
        """Some of the cases (a mask or indices)."""
        return replace(
            self,
            samples=self.samples[rows],
            groups=None if self.groups is None else self.groups[rows],
            scored=self.scored.take(rows),
            failure=self.failure[rows],
            unanswered=self.unanswered[rows],
            scores={k: v[rows] for k, v in self.scores.items()},
            slices={k: v[rows] for k, v in self.slices.items()},
            predicted=None if self.predicted is None else self.predicted[rows],
            met=None if self.met is None else self.met[rows],
            truth=None if self.truth is None else self.truth[rows],
            outputs=None if self.outputs is None else self.outputs[rows],
            label_probabilities=None
            if self.label_probabilities is None
            else self.label_probabilities[rows],
        )

    def shifted(self) -> Observed:
        """Of a mixture the cases that met any circumstance; of other conditions all."""
        return self if self.met is None else self.take(self.met != MET_NONE)

    def cut(self, column: str, content: str) -> Observed:
        """One slice."""
        name = f"{self.slice}, {column}={content}" if self.slice else f"{column}={content}"
        return replace(self.take(self.slices[column] == content), slice=name)

    def contents(self, column: str) -> list[str]:
        """The values of a slice column, in order."""
        return sorted(set(self.slices[column].tolist()))

    def paired_with(self, other: Observed) -> bool:
        """Whether both hold the same samples of the same role in the same order."""
        same = self.has_parent and other.has_parent
        same = same and self.role == other.role and len(self) == len(other)
        return same and bool((self.samples == other.samples).all())

    @property
    def clusters(self) -> np.ndarray:
        """What is resampled together when conditions are pooled: the group, else the sample of its role."""
        if self.groups is not None:
            return np.asarray(self.groups).astype(str).astype(object)
        return np.array([f"{self.role}:{s}" for s in self.samples], dtype=object)

    def failed(self) -> Scored:
        """The failure criterion as a measure of its own: the share of cases that fail."""
        return Scored.proportion(1.0 - self.failure.astype(np.float64), better="lower")
